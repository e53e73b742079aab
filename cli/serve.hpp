#pragma once

#include <cstdint>
#include <string>

#include "actors/supervisor/node_options.hpp"

namespace CLI {
class App;
}

namespace yolk::cli {

struct serve_options {
  actors::node_options node;
  std::string model_folder;  ///< empty = the builtin one
  std::string served_name;   ///< empty = the folder's name
  std::string api_keys_file;
  std::string device = "host";
  unsigned threads = 0;  ///< of the host device; 0 = as many as the process may use
  double prefill_share = 1.0;
  unsigned drain_seconds = 5;
  std::string metrics;  ///< HOST:PORT, as it was written; empty = the default
};

/// Declares the options of `yolk serve`, each also settable in the file that --config names. The App must be
/// a command line of its own: CLI11 reads no file for a subcommand.
void declare_serve(CLI::App& serve, serve_options& options);
/// Those that `yolk node` has, too.
void declare_service(CLI::App& command, serve_options& options);
/// Runs the node until SIGINT or SIGTERM. `command`: "serve", for its messages. The exit code.
int run_service(const serve_options& given, const std::string& command);

}  // namespace yolk::cli
