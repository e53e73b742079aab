#include <CLI/CLI.hpp>
#include <string>

#include "cli/chat_command.hpp"
#include "cli/inspect.hpp"
#include "cli/serve.hpp"
#include "cli/version.hpp"
#include "transport/process.hpp"

int main(int argc, char** argv) {
  yolk::transport::prepare_process();
  CLI::App app{"yolk serves large language models with the KV cache at its centre."};
  app.set_version_flag("--version", std::string("yolk ") + yolk::cli::version());
  app.require_subcommand(1);
  app.fallthrough(false);

  yolk::cli::serve_options serve;
  auto* serve_command = yolk::cli::add_serve(app, serve);
  yolk::cli::chat_options chat;
  auto* chat_command = yolk::cli::add_chat(app, chat);
  auto* model = app.add_subcommand("model", "Look at models");
  model->require_subcommand(1);
  yolk::cli::inspect_options inspect;
  auto* inspect_command = yolk::cli::add_inspect(*model, inspect);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem);
  }
  if (serve_command->parsed()) return yolk::cli::run_serve(serve);
  if (chat_command->parsed()) return yolk::cli::run_chat(chat);
  if (inspect_command->parsed()) return yolk::cli::run_inspect(inspect);
  return 2;
}
