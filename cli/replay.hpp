#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "simulation/trace.hpp"

namespace CLI {
class App;
}

namespace yolk::cli {

struct replay_options {
  std::string trace_path;
  std::string cluster = "8xA800-llama3-70b";  ///< a preset or a file
  simulation::trace_options trace;
  std::optional<std::uint64_t> seed;  ///< absent = the cluster's
  std::string placement;              ///< empty = the cluster's
  std::string admission;              ///< empty = the cluster's
  std::string json_path;              ///< empty = none; "-" = standard output
  std::string html_path;              ///< empty = none
  std::string show_preset;            ///< only writes that preset's text
};

/// Declares `yolk replay`.
CLI::App* add_replay(CLI::App& app, replay_options& options);
/// Replays and writes the reports. The exit code.
int run_replay(const replay_options& given);

}  // namespace yolk::cli
