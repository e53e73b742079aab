#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/admission_controller/admission_controller.hpp"
#include "actors/cache_shard/cache_shard.hpp"
#include "actors/conductor/conductor.hpp"
#include "actors/decode_worker/decode_worker.hpp"
#include "actors/http_gateway/http_gateway.hpp"
#include "actors/prefill_worker/prefill_worker.hpp"
#include "actors/supervisor/lease.hpp"
#include "actors/supervisor/membership.hpp"

namespace yolk::actors {

class cluster_identity;

/// When a silent node is taken for dead. (One that dies is noticed at once: its connections close.) Alike on
/// all nodes, since each counts on what the others send.
struct heartbeat_limits {
  std::chrono::milliseconds interval{500};  ///< between two words to every other node
  std::chrono::milliseconds timeout{2500};  ///< of silence; at least twice the interval
};

/// A node's part in a cluster. The defaults are a node alone.
struct cluster_options {
  std::uint32_t roles = all_roles;
  std::optional<node_address> listen;  ///< where its door is; none: nobody else can join or be joined
  std::string advertise;               ///< the host that others reach it by; empty: the one it listens on
  std::vector<node_address> join;      ///< where the head may be; for nodes without role_conductor
  std::shared_ptr<const cluster_identity> identity;  ///< with listen
  std::shared_ptr<lease> leadership;  ///< with role_conductor: leads only while it holds it; null: leads
  heartbeat_limits heartbeat;
  std::string name;
  std::uint32_t max_nodes = 1024;
};

/// What a node consists of. As it stands: all roles, `yolk serve`.
struct node_options {
  cluster_options cluster;
  std::uint32_t prefill_workers = 1;
  std::uint32_t decode_workers = 1;
  std::uint64_t prefill_kv_bytes = std::uint64_t{512} << 20;  ///< block pool of each prefill worker
  std::uint64_t decode_kv_bytes = std::uint64_t{1} << 30;     ///< block pool of each decode worker
  std::uint64_t cache_dram_bytes = std::uint64_t{1} << 30;    ///< the cache shard's DRAM tier
  std::string cache_ssd_folder;                               ///< of its SSD tier; empty = none
  std::uint64_t cache_ssd_bytes = std::uint64_t{16} << 30;
  std::uint32_t block_tokens = 16;
  gateway_options gateway;
  std::optional<node_address> metrics;  ///< where /metrics and /health of this node alone are; port 0: any
  scheduling::admission_limits admission;
  conductor_options conductor;
  prefill_options prefill;
  decode_options decode;
  shard_options shard;
  core::duration status_interval = std::chrono::milliseconds(500);
  /// At the end: how long running requests may go on before the actors are ended under them.
  core::duration drain_limit = std::chrono::seconds(5);
  /// A worker with work that makes no progress for so long is called hung: /health says 503.
  core::duration hang_limit = std::chrono::seconds(60);
};

}  // namespace yolk::actors
