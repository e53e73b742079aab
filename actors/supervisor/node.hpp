#pragma once

#include <cstdint>
#include <memory>

#include "actors/supervisor/supervisor.hpp"

namespace yolk::actors {

/// A node as its program sees it: started, with a port, stopped at the end. Hides the actor system.
class node {
 public:
  static node_result<std::unique_ptr<node>> start(std::shared_ptr<const worker_factory> factory);
  virtual ~node() = default;  ///< stops
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Where other nodes find it; 0 = it does not listen for any.
  [[nodiscard]] virtual std::uint16_t door_port() const = 0;
  /// Where --metrics answers; 0 = nowhere.
  [[nodiscard]] virtual std::uint16_t metrics_port() const = 0;
  /// How far a node that joins a cluster has come.
  [[nodiscard]] virtual node_progress progress() const = 0;
  /// Ends all actors, the gateway first. Returns when none is left.
  virtual void stop() = 0;
  /// From another thread while stop() waits for running requests: they end now, with an error.
  virtual void hurry() = 0;
};

}  // namespace yolk::actors
