#pragma once

#include <caf/actor_system_config.hpp>
#include <memory>

#include "actors/supervisor/cluster_identity.hpp"
#include "actors/supervisor/node_options.hpp"

namespace yolk::actors {

/// CAF's settings for a node, and for tools that call on one. With an identity: among other nodes.
class node_system_config : public caf::actor_system_config {
 public:
  node_system_config(std::shared_ptr<const cluster_identity> identity, heartbeat_limits heartbeat);

 private:
  std::shared_ptr<const cluster_identity> identity_;  ///< its files are read as long as the system lives
};

}  // namespace yolk::actors
