#pragma once

#include <caf/actor_system_config.hpp>
#include <memory>

#include "actors/supervisor/cluster_identity.hpp"

namespace yolk::actors {

/// CAF's settings for a node, and for tools that call on one. With an identity: among other nodes.
class node_system_config : public caf::actor_system_config {
 public:
  explicit node_system_config(std::shared_ptr<const cluster_identity> identity);

 private:
  std::shared_ptr<const cluster_identity> identity_;  ///< its files are read as long as the system lives
};

}  // namespace yolk::actors
