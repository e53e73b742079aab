#pragma once

#include <caf/actor_system.hpp>
#include <memory>

#include "actors/worker_environment.hpp"

namespace yolk::actors {

struct prefill_options {
  std::uint32_t chunk_tokens = 512;  ///< tokens of one step, over all its sequences
  std::uint32_t max_active = 16;     ///< legs that hold blocks at once
  std::uint32_t max_queued = 4096;   ///< legs that wait; the admission controller's bound is the smaller one
  bool look_ahead = false;           ///< shards are told what the legs that wait will need
  std::uint32_t max_wanted = 64;     ///< legs of the queue's beginning for which they are
  core::duration want_interval = std::chrono::seconds(10);  ///< until it is said again
  core::duration lookup_timeout = std::chrono::seconds(2);
  core::duration reserve_timeout = std::chrono::seconds(120);  ///< for room on the decode worker
  core::duration transfer_deadline = std::chrono::seconds(10);
  core::duration offer_timeout = std::chrono::seconds(15);
};

/// Computes prompts: brings cached prefix blocks in, computes the rest in chunks, pushes each layer's KV to
/// the decode worker while the next layer is computed, samples the first token, hands the sequence over.
messages::prefill_worker_actor spawn_prefill_worker(caf::actor_system& system, const prefill_options& options,
                                                    std::shared_ptr<worker_environment> environment);

}  // namespace yolk::actors
