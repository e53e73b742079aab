#pragma once

#include <cstdint>
#include <memory>

#include "simulation/cluster_description.hpp"
#include "simulation/measurements.hpp"
#include "simulation/trace.hpp"

namespace yolk::simulation {

struct replay_result {
  std::unique_ptr<measurements> results;
  double end_seconds = 0.0;  ///< virtual, from the start to the last request's end
  std::uint64_t messages = 0;
  std::uint64_t events = 0;
  double sent_bytes = 0.0;   ///< between nodes
  double local_bytes = 0.0;  ///< within nodes
  std::string audit;         ///< empty when nothing was held at the end
};

/// Sends the trace's requests to the described cluster, each at its time, until the last has ended. The same
/// trace, description and seed give the same result, bit for bit.
result<replay_result> replay(trace_reader& trace, const cluster_description& description);

}  // namespace yolk::simulation
