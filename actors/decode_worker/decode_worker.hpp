#pragma once

#include <caf/actor_system.hpp>
#include <memory>

#include "actors/worker_environment.hpp"

namespace yolk::actors {

struct decode_options {
  std::uint32_t max_batch = 64;  ///< sequences in one step
  std::uint32_t max_waiting_reservations = 4096;
  core::duration lease = std::chrono::seconds(60);  ///< of a reservation; a prefill that goes on renews it
  /// After a lease ended, blocks rest until no write that was begun within it can still arrive.
  core::duration lease_grace = std::chrono::seconds(15);
  core::duration offer_timeout = std::chrono::seconds(15);
};

/// Generates tokens: takes sequences whose KV arrived and was verified into its running batch, step after
/// step, until each ends; then offers their blocks to the cache for the next turn.
messages::decode_worker_actor spawn_decode_worker(caf::actor_system& system, const decode_options& options,
                                                  std::shared_ptr<worker_environment> environment);

}  // namespace yolk::actors
