#pragma once

#include <string>

namespace CLI {
class App;
}

namespace yolk::cli {

struct inspect_options {
  std::string model_folder;
  unsigned block_tokens = 16;
};

/// `yolk model inspect DIR`: what a model is, and what its KV costs.
CLI::App* add_inspect(CLI::App& model_command, inspect_options& options);
int run_inspect(const inspect_options& options);

}  // namespace yolk::cli
