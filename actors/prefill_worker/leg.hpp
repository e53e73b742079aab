#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/conversions.hpp"
#include "actors/prefill_worker/layer_push.hpp"
#include "core/clock.hpp"
#include "core/sampling_params.hpp"
#include "messages/interfaces.hpp"
#include "model/sampler.hpp"

namespace yolk::actors {

/// queued: waits for its turn. preparing: brings in its prefix, waits for blocks here and at the decode
/// worker. computing: its chunks are in steps. pushing: computed, KV still on its way. ended: waits only for
/// what still touches its blocks.
enum class leg_phase : std::uint8_t { queued, preparing, computing, pushing, ended };

/// One try at one prompt, within the prefill worker that computes it.
struct prefill_leg {
  prefill_leg(leg_header its_header, messages::generate_request its_request)
      : header(its_header), request(std::move(its_request)) {}

  const leg_header header;
  const messages::generate_request request;
  messages::session_actor session;
  messages::decode_worker_actor decode;
  messages::cache_shard_actor source;  ///< has a part of the prompt's KV; null: none does
  messages::cache_shard_actor keeper;  ///< keeps the prompt's KV; null: none does
  kvcache::block_key root;
  std::vector<core::token_id> tokens;
  std::uint32_t prompt_length = 0;
  std::uint32_t first_choice = 0;
  core::sampling_params sampling;
  std::vector<std::uint64_t> seeds;  ///< one a choice
  core::time_point arrived{};
  std::uint32_t pool_hint_tokens = 0;    ///< what the conductor says the source has
  std::uint32_t pool_cached_tokens = 0;  ///< what the keeper is known to have
  bool wanted = false;                   ///< the source was told that it will be needed
  core::time_point want_again{};

  std::vector<core::block_index> blocks;  ///< one reference each, held by this leg
  std::uint32_t cached_tokens = 0;        ///< not computed here
  std::uint32_t computed_tokens = 0;      ///< position up to which KV is there, cached prefix included
  double compute_seconds = 0.0;

  bool reserved = false;  ///< the decode worker may hold something for it
  std::vector<core::block_index> remote_blocks;
  std::uint32_t resident_blocks = 0;
  transport::region_descriptor remote;
  core::duration lease{};
  core::time_point lease_end{};

  std::vector<std::shared_ptr<model::sampler>> samplers;  ///< one a choice
  std::shared_ptr<layer_push> push;                       ///< from the grant on
  std::vector<std::pair<std::uint32_t, core::token_id>>
      going_on;  ///< choices not finished after their first token

  std::uint32_t in_use = 0;  ///< steps, pulls and pushes that still touch its blocks

  [[nodiscard]] leg_phase phase() const { return phase_; }
  void enter(leg_phase next) {
    YOLK_INVARIANT(next > phase_ || (next == leg_phase::queued && phase_ == leg_phase::preparing),
                   static_cast<int>(phase_), static_cast<int>(next), header.leg);
    phase_ = next;
  }

 private:
  leg_phase phase_ = leg_phase::queued;
};

}  // namespace yolk::actors
