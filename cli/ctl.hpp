#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace yolk::cli {

struct ctl_options {
  std::vector<std::string> join;
  std::string secret_file;
  std::uint32_t node = 0;  ///< to drain
};

/// `yolk ctl status`, `yolk ctl drain NODE`: what an operator asks a running cluster.
struct ctl_commands {
  CLI::App* status = nullptr;
  CLI::App* drain = nullptr;
};
ctl_commands add_ctl(CLI::App& program, ctl_options& options);
int run_ctl_status(const ctl_options& options);
int run_ctl_drain(const ctl_options& options);

}  // namespace yolk::cli
