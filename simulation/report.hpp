#pragma once

#include <string>

#include "simulation/cluster_description.hpp"
#include "simulation/replay.hpp"
#include "simulation/trace.hpp"

namespace yolk::simulation {

/// What a report is about.
struct report_input {
  const cluster_description& cluster;
  const trace_options& trace;
  const std::string& trace_name;
  const replay_result& result;
};

/// Parts into which the time is cut for curves over time.
inline constexpr std::size_t report_points = 240;

/// The curves of a report over report_points equal parts of the time.
struct report_curves {
  double part_seconds = 0.0;
  std::vector<double> arrivals;      ///< requests a second
  std::vector<double> goodput;       ///< requests a second that met both targets, at their ends
  std::vector<double> refusals;      ///< requests a second
  std::vector<double> waiting;       ///< requests without a first token
  std::vector<double> decoding;      ///< requests with one
  std::vector<double> prefill_load;  ///< share of the time in which the devices compute
  std::vector<double> decode_load;   ///< mean step time over the TBT target
};
report_curves curves_of(const report_input& input);

/// One JSON object (docs/simulation.md says what its fields are); the same for the same input, byte for byte.
std::string report_json(const report_input& input);
/// A self-contained HTML page with plots: no script, nothing fetched.
std::string report_page(const report_input& input);
/// A few lines for a terminal.
std::string report_text(const report_input& input);

}  // namespace yolk::simulation
