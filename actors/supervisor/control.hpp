#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/supervisor/cluster_identity.hpp"
#include "actors/supervisor/membership.hpp"

namespace yolk::actors {

/// What an operator sees of one actor.
struct actor_view {
  std::uint32_t node = 0;
  std::string kind;  ///< "decode_worker"
  std::uint32_t id = 0;
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint32_t blocks_used = 0;
  std::uint32_t blocks_cached = 0;
  std::uint32_t blocks_total = 0;
  std::uint32_t restarts = 0;
};

struct cluster_view {
  bool healthy = false;
  std::string reason;  ///< why not
  std::vector<actor_view> actors;
};

/// An operator's line to a cluster: calls on the head's door. Each call waits some seconds at most. Hides
/// CAF.
class cluster_control {
 public:
  static std::unique_ptr<cluster_control> start(std::shared_ptr<const cluster_identity> identity);
  virtual ~cluster_control() = default;

  /// Finds the head among these addresses.
  virtual node_result<core::void_t> connect(const std::vector<node_address>& heads) = 0;
  virtual node_result<cluster_view> status() = 0;
  /// Nothing more is placed on that node's workers; what they generate goes on elsewhere.
  virtual node_result<core::void_t> drain(std::uint32_t node) = 0;
};

}  // namespace yolk::actors
