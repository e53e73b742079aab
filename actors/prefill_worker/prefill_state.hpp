#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/block_offer.hpp"
#include "actors/cache_report.hpp"
#include "actors/prefill_worker/leg.hpp"
#include "actors/prefill_worker/prefill_worker.hpp"
#include "core/background_thread.hpp"
#include "kvcache/block_header.hpp"
#include "kvcache/prefix_cache.hpp"

namespace yolk::actors {

// What the worker's threads tell its actor. Local, so plain structs.
struct prefill_step_done {
  std::shared_ptr<const model::step_result> result;
};
struct prefill_push_done {
  std::uint64_t leg = 0;
  bool all_arrived = false;
};
struct prefill_pull_done {
  std::uint64_t leg = 0;
  bool verified = false;
};

using prefill_internal_actor = messages::prefill_worker_actor::extend<
    caf::reacts_to<prefill_step_done>, caf::reacts_to<prefill_push_done>, caf::reacts_to<prefill_pull_done>,
    caf::reacts_to<offer_ready>, caf::reacts_to<messages::tick_atom>>;

/// Owns the worker's blocks, cache and legs. Lives in the actor, used by its handlers alone.
class prefill_state {
 public:
  prefill_state(prefill_internal_actor::pointer self, const prefill_options& options,
                std::shared_ptr<worker_environment> environment);
  ~prefill_state();

  void take_order(const messages::prefill_order& order, const messages::generate_request& request,
                  const messages::session_actor& session, const messages::decode_worker_actor& decode,
                  const messages::cache_shard_actor& source, const messages::cache_shard_actor& keeper);
  void cancel(std::uint64_t leg_id);
  void set_conductor(const messages::conductor_reports& conductor);
  void step_done(const prefill_step_done& done);
  void push_done(const prefill_push_done& done);
  void pull_done(const prefill_pull_done& done);
  void send_offer(std::uint64_t number);
  void peer_down(const caf::actor_addr& who);
  void tick();
  [[nodiscard]] messages::actor_status status(std::uint64_t serial) const;
  [[nodiscard]] messages::cache_snapshot snapshot() const;

 private:
  /// Blocks on their way from a shard: landed in blocks that nobody can find before they are verified.
  struct pending_pull {
    std::uint64_t pin = 0;
    std::vector<core::block_index> blocks;  ///< one reference each
    std::vector<kvcache::block_header> headers;
    std::uint32_t first_token = 0;
  };
  /// Which legs a step computes, in the order of its slices.
  struct open_step {
    struct part {
      std::shared_ptr<prefill_leg> leg;
      std::uint32_t token_count = 0;
    };
    std::vector<part> parts;
  };
  using leg_ptr = std::shared_ptr<prefill_leg>;

  // preparing
  void start_legs();
  void prepare(const leg_ptr& leg);
  void look_up(const leg_ptr& leg);
  /// Tells shards what the legs that wait will need of them.
  void want_queued();
  void unwant(const leg_ptr& leg);
  void pull(const leg_ptr& leg, const messages::prefix_pinned& pinned);
  void unpin(const leg_ptr& leg, std::uint64_t pin);
  void go_on_without(const leg_ptr& leg);
  void get_blocks(const leg_ptr& leg);
  void reserve(const leg_ptr& leg);
  void granted(const leg_ptr& leg, const messages::reservation_granted& grant);
  // computing
  void form_step();
  [[nodiscard]] model::step build_step(const open_step& parts) const;
  [[nodiscard]] model::step_executor::layer_callback layer_pusher(const open_step& parts) const;
  void first_tokens(const leg_ptr& leg, const std::vector<core::sampled_token>& tokens);
  // ending
  void hand_over(const leg_ptr& leg);
  void keep_in_cache(const leg_ptr& leg);
  void offer(const leg_ptr& leg);
  void offer_answered(std::uint64_t number);
  void fail(const leg_ptr& leg, messages::schema::LegFailed::Reason why, const std::string& text);
  void end(const leg_ptr& leg);
  void release_if_unused(const leg_ptr& leg);
  void report();
  void send_cache_events();

  [[nodiscard]] std::uint32_t active_count() const;
  [[nodiscard]] std::uint32_t block_tokens() const { return environment_->layout.block_tokens; }

  prefill_internal_actor::pointer self_;
  prefill_options options_;
  std::shared_ptr<worker_environment> environment_;
  messages::conductor_reports conductor_;
  std::set<caf::actor_addr> watched_;  ///< decode workers whose end is told to us
  /// Shards that were pulled from: their regions stay mapped here until they are forgotten.
  std::map<caf::actor_addr, transport::region_descriptor> sources_;

  kvcache::prefix_cache cache_;
  std::vector<std::vector<std::uint64_t>> checksums_;  ///< by block; empty = not known
  std::map<std::uint64_t, leg_ptr> legs_;              ///< all that are not released, by leg id
  std::vector<leg_ptr> order_;                         ///< those not ended, in order of arrival
  std::unordered_map<std::uint64_t, std::unique_ptr<pending_pull>> pulls_;  ///< by leg id
  std::shared_ptr<open_step> step_;

  cache_report cache_report_;

  core::time_point last_progress_;
  std::uint64_t steps_done_ = 0;
  std::uint64_t tokens_done_ = 0;
  std::uint64_t hit_tokens_ = 0;
  std::uint64_t miss_tokens_ = 0;
  std::unique_ptr<core::background_thread> hashing_;
  open_offers offers_;
};

}  // namespace yolk::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(yolk::actors::prefill_step_done)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(yolk::actors::prefill_push_done)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(yolk::actors::prefill_pull_done)
