#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "cli/chat_command.hpp"
#include "cli/ctl.hpp"
#include "cli/inspect.hpp"
#include "cli/node.hpp"
#include "cli/replay.hpp"
#include "cli/serve.hpp"
#include "cli/version.hpp"
#include "transport/process.hpp"

namespace {

constexpr const char* what_serve_does = "Serve a model over an OpenAI-compatible HTTP API";
constexpr const char* what_node_does = "Run a node of a cluster, with some of the roles of a server";

/// `yolk serve …`: argv[0] is "serve".
int serve(int argc, char** argv) {
  CLI::App app{what_serve_does, "yolk serve"};
  yolk::cli::serve_options options;
  yolk::cli::declare_serve(app, options);
  CLI11_PARSE(app, argc, argv);
  return yolk::cli::run_service(options, "serve");
}

/// `yolk node …`, likewise.
int node(int argc, char** argv) {
  CLI::App app{what_node_does, "yolk node"};
  yolk::cli::node_command_options options;
  yolk::cli::declare_node(app, options);
  CLI11_PARSE(app, argc, argv);
  return yolk::cli::run_node(options);
}

}  // namespace

int main(int argc, char** argv) {
  yolk::transport::prepare_process();
  if (argc > 1 && std::string_view(argv[1]) == "serve") return serve(argc - 1, argv + 1);
  if (argc > 1 && std::string_view(argv[1]) == "node") return node(argc - 1, argv + 1);
  CLI::App app{"yolk serves large language models with the KV cache at its centre."};
  app.set_version_flag("--version", std::string("yolk ") + yolk::cli::version());
  app.require_subcommand(1);
  app.fallthrough(false);

  app.add_subcommand("serve", what_serve_does);  // for the list of commands; serve() above has its options
  app.add_subcommand("node", what_node_does);
  yolk::cli::chat_options chat;
  auto* chat_command = yolk::cli::add_chat(app, chat);
  yolk::cli::replay_options replay;
  auto* replay_command = yolk::cli::add_replay(app, replay);
  yolk::cli::ctl_options ctl;
  const auto ctl_commands = yolk::cli::add_ctl(app, ctl);
  auto* model = app.add_subcommand("model", "Look at models");
  model->require_subcommand(1);
  yolk::cli::inspect_options inspect;
  auto* inspect_command = yolk::cli::add_inspect(*model, inspect);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem);
  }
  if (chat_command->parsed()) return yolk::cli::run_chat(chat);
  if (replay_command->parsed()) return yolk::cli::run_replay(replay);
  if (ctl_commands.status->parsed()) return yolk::cli::run_ctl_status(ctl);
  if (ctl_commands.drain->parsed()) return yolk::cli::run_ctl_drain(ctl);
  if (inspect_command->parsed()) return yolk::cli::run_inspect(inspect);
  return 2;
}
