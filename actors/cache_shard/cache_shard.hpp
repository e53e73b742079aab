#pragma once

#include <caf/actor_system.hpp>
#include <memory>

#include "actors/metrics.hpp"
#include "core/background_thread.hpp"
#include "core/clock.hpp"
#include "core/ids.hpp"
#include "kvcache/eviction_order.hpp"
#include "kvcache/segment_layout.hpp"
#include "kvcache/ssd_log.hpp"
#include "messages/interfaces.hpp"
#include "transport/transfer_engine.hpp"

namespace yolk::actors {

/// When blocks go from DRAM to SSD: never; as soon as they are stored; or before they are evicted, and at the
/// end.
enum class cache_write_policy : std::uint8_t { none, write_through, write_back };

struct shard_options {
  core::duration pin_lease =
      std::chrono::seconds(20);  ///< a pull that takes longer finds its pin gone: a miss
  core::duration transfer_deadline = std::chrono::seconds(10);
  core::duration reservation_lease = std::chrono::seconds(15);
  core::duration orphan_wait =
      std::chrono::milliseconds(500);  ///< for the beginning of an offered chain to arrive
  std::uint32_t max_offers = 256;      ///< being stored at once; beyond, an offer is declined
  kvcache::eviction_order eviction = kvcache::eviction_order::lru;
  cache_write_policy write_policy = cache_write_policy::write_through;
  double save_ahead = 0.125;  ///< of the arena: what write_back keeps saved of what would be evicted next
  core::duration load_limit = std::chrono::seconds(1);  ///< what SSD has not given by then is a miss
  core::duration save_limit = std::chrono::seconds(2);  ///< at the end: for saves that have begun
  std::uint32_t max_wants = 256;  ///< queued requests that look_ahead protects; beyond, one is not
  core::duration want_lease = std::chrono::seconds(30);  ///< said again while the request waits
  std::uint32_t max_loads = 64;                          ///< from SSD at once; beyond, a lookup finds DRAM's
};

/// The engine's region is the DRAM tier: slot s lies at s · layout.block_bytes().
struct shard_environment {
  core::worker_id id;
  core::incarnation incarnation;
  kvcache::segment_layout layout;
  std::uint64_t byte_limit = 0;
  std::unique_ptr<transport::transfer_engine> transfers;
  std::unique_ptr<kvcache::ssd_log> ssd;  ///< null = no SSD tier
  std::shared_ptr<metrics> recorder;
  std::shared_ptr<const core::clock> clock;
  core::job_place hashing = core::job_place::own_thread;  ///< where checksums are computed
};

/// The node's DRAM and SSD tiers of KV: takes the blocks that workers offer, gives prefixes to those who ask.
messages::cache_shard_actor spawn_cache_shard(caf::actor_system& system, const shard_options& options,
                                              std::shared_ptr<shard_environment> environment);

}  // namespace yolk::actors
