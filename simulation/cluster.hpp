#pragma once

#include <memory>
#include <vector>

#include "actors/worker_environment.hpp"
#include "messages/interfaces.hpp"
#include "simulation/cluster_description.hpp"
#include "simulation/measurements.hpp"
#include "simulation/simulated_engine.hpp"
#include "simulation/virtual_system.hpp"

namespace yolk::simulation {

/// The actors of a described cluster: one conductor, one admission controller, and a worker and perhaps a
/// cache shard for each node. The actors are those that serve; only their clock, devices and engines are
/// simulated.
class cluster {
 public:
  cluster(virtual_system& system, const cluster_description& description, measurements& results);
  /// Ends all actors.
  ~cluster();
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  [[nodiscard]] const messages::admission_controller_actor& admission() const { return admission_; }
  [[nodiscard]] const messages::conductor_actor& conductor() const { return conductor_; }
  [[nodiscard]] const network& links() const { return network_; }
  /// What is still held although nothing runs any more, by any actor: empty when accounts are in order.
  [[nodiscard]] std::string audit();

 private:
  struct node_actors {
    messages::prefill_worker_actor prefill;  ///< or
    messages::decode_worker_actor decode;
    messages::cache_shard_actor shard;  ///< null where the node has none
    std::shared_ptr<actors::metrics> recorder;
  };

  void start_node(std::uint32_t index, const node_description& node);
  void start_shard(std::uint32_t index, const node_description& node);
  void start_worker(std::uint32_t index, const node_description& node);
  [[nodiscard]] std::shared_ptr<actors::worker_environment> environment(std::uint32_t index,
                                                                        const node_description& node);
  [[nodiscard]] std::unique_ptr<transport::transfer_engine> engine(std::uint32_t index,
                                                                   core::incarnation incarnation,
                                                                   std::uint64_t blocks,
                                                                   transport::engine_counters* totals);
  [[nodiscard]] core::incarnation next_incarnation() { return {++last_incarnation_}; }

  virtual_system& system_;
  const cluster_description& description_;
  measurements& results_;
  network network_;
  fabric fabric_;
  kvcache::segment_layout layout_;
  std::uint64_t last_incarnation_ = 0;
  messages::conductor_actor conductor_;
  messages::admission_controller_actor admission_;
  std::vector<node_actors> nodes_;
};

}  // namespace yolk::simulation
