#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/clock.hpp"
#include "simulation/event_queue.hpp"
#include "simulation/virtual_clock.hpp"

namespace yolk::simulation {

/// A node's way to the others and to its own DRAM, in bytes per second; 0 = takes no time.
struct node_link {
  double out_bytes_per_second = 0.0;
  double in_bytes_per_second = 0.0;
  double local_bytes_per_second = 0.0;  ///< within the node: uncontended
  core::duration setup{};               ///< of every transfer
};

/// Flows between nodes that share links. A flow's rate is the smaller of its equal shares of the sender's way
/// out and of the receiver's way in (processor sharing at both ends; what one end leaves over is not given to
/// others), set anew whenever a flow at either end begins or ends. Not thread-safe.
class network {
 public:
  using flow_id = std::uint64_t;

  network(event_queue& events, const virtual_clock& clock, const std::vector<node_link>& nodes);

  /// `arrived` is called once, later, from the event queue; never after cancel().
  flow_id start(std::uint32_t from, std::uint32_t to, double bytes, std::function<void()> arrived);
  void cancel(flow_id id);

  [[nodiscard]] std::uint32_t node_count() const { return static_cast<std::uint32_t>(nodes_.size()); }
  [[nodiscard]] double sent_bytes() const { return sent_bytes_; }    ///< between nodes
  [[nodiscard]] double local_bytes() const { return local_bytes_; }  ///< within nodes

 private:
  struct flow {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    double remaining_bytes = 0.0;
    double rate = 0.0;  ///< bytes per second
    core::time_point since{};
    std::uint64_t version = 0;  ///< of the planned end
    bool moving = false;        ///< its setup is over, and it shares links
    std::function<void()> arrived;
  };
  struct node {
    node_link link;
    std::vector<flow_id> out;
    std::vector<flow_id> in;
  };

  void join(flow_id id);
  void finish(flow_id id);
  void leave(flow_id id, const flow& left);
  void share_again(const std::vector<flow_id>& flows);
  void plan_end(flow_id id, flow& changed);

  event_queue& events_;
  const virtual_clock& clock_;
  std::vector<node> nodes_;
  std::map<flow_id, flow> flows_;
  flow_id last_id_ = 0;
  double sent_bytes_ = 0.0;
  double local_bytes_ = 0.0;
};

}  // namespace yolk::simulation
