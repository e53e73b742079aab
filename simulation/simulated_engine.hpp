#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulation/network.hpp"
#include "transport/transfer_engine.hpp"

namespace yolk::simulation {

/// Which node each living engine is on. Shared by the engines of one simulation; outlives them.
class fabric {
 public:
  fabric(event_queue& events, const virtual_clock& clock, network& links)
      : events(events), clock(clock), links(links) {}

  event_queue& events;
  const virtual_clock& clock;
  network& links;
  std::unordered_map<std::uint64_t, std::uint32_t> node_of;  ///< by owner's incarnation
};

struct simulated_engine_options {
  std::uint32_t node = 0;
  core::incarnation owner;
  std::uint64_t region_bytes = 0;                ///< as the actors count them
  double bytes_per_byte = 1.0;                   ///< bytes that pass the links for each of these
  transport::engine_counters* totals = nullptr;  ///< counted into as well, unless null; outlives the engine
};

/// Moves no bytes: a transfer takes the time that its bytes take on the shared links. The region is memory
/// that is never written, so it reads as zeros and takes no room.
std::unique_ptr<transport::transfer_engine> make_simulated_engine(fabric& fabric,
                                                                  const simulated_engine_options& options);

}  // namespace yolk::simulation
