#include "cli/inspect.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/model_folder.hpp"
#include "model/loaded_model.hpp"

namespace yolk::cli {

CLI::App* add_inspect(CLI::App& model_command, inspect_options& options) {
  auto* inspect =
      model_command.add_subcommand("inspect", "Say what a model is and how much KV a token costs");
  inspect->add_option("DIR", options.model_folder,
                      "A Hugging Face model folder (default: the builtin model)");
  inspect->add_option("--block-tokens", options.block_tokens, "Tokens in a KV block")->capture_default_str();
  return inspect;
}

int run_inspect(const inspect_options& options) {
  const auto folder =
      options.model_folder.empty() ? builtin_model_folder() : std::filesystem::path(options.model_folder);
  const auto inspected = model::inspect_model(folder);
  if (!inspected) {
    std::fprintf(stderr, "yolk model inspect: %s\n", inspected.error().message.c_str());
    return exit_usage;
  }
  const auto& summary = *inspected;
  const auto& config = summary.config;
  const auto layout = config.kv_layout(options.block_tokens);
  std::printf("%s\n", summary.name.c_str());
  std::printf("  architecture   %s: %u layers, hidden %u, ffn %u\n", config.model_type.c_str(),
              config.layer_count, config.hidden_size, config.intermediate_size);
  std::printf("  attention      %u query heads, %u KV heads of %u (GQA %u:1)\n", config.query_head_count,
              config.kv_head_count, config.head_dim, config.query_head_count / config.kv_head_count);
  std::printf("  parameters     %s, %s as %s\n", short_count(summary.parameter_count).c_str(),
              short_bytes(summary.weight_bytes).c_str(), summary.weight_dtype.c_str());
  std::printf("  tokenizer      %s, %zu entries\n", summary.tokenizer_kind.c_str(), summary.vocabulary_size);
  std::printf("  chat template  %s\n",
              summary.chat_template_name.empty() ? "none" : summary.chat_template_name.c_str());
  std::printf("  context        %u tokens\n", config.context_length);
  std::printf("  KV             %zu bytes a token (bf16): a block of %u tokens is %s, a full context %s\n",
              layout.token_bytes(), layout.block_tokens, short_bytes(layout.block_bytes()).c_str(),
              short_bytes(layout.token_bytes() * config.context_length).c_str());
  return 0;
}

}  // namespace yolk::cli
