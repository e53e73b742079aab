#pragma once

#include <string>
#include <vector>

#include "cli/serve.hpp"

namespace yolk::cli {

/// What `yolk node` takes beyond `yolk serve`, as it was written.
struct node_command_options {
  serve_options service;
  std::vector<std::string> roles;
  std::vector<std::string> join;
  std::string listen;
  std::string secret_file;
  std::string lease;
  double lease_seconds = 6;
  double heartbeat_interval = 0.5;  ///< seconds, as the next
  double heartbeat_timeout = 2.5;
};

/// Declares the options of `yolk node`; as declare_serve.
void declare_node(CLI::App& command, node_command_options& options);
/// Runs a node of a cluster until SIGINT or SIGTERM. The exit code.
int run_node(const node_command_options& given);

}  // namespace yolk::cli
