#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "cli/chat_command.hpp"
#include "cli/ctl.hpp"
#include "cli/exit_code.hpp"
#include "cli/inspect.hpp"
#include "cli/node.hpp"
#include "cli/replay.hpp"
#include "cli/serve.hpp"
#include "cli/version.hpp"
#include "transport/process.hpp"

namespace {

constexpr const char* what_serve_does = "Serve a model over an OpenAI-compatible HTTP API";
constexpr const char* what_node_does = "Run a node of a cluster, with some of the roles of a server";

/// Shows help or what is wrong with the command line; the exit code.
int end_parsing(const CLI::App& app, const CLI::ParseError& problem) {
  // CLI11 names the file alone.
  if (problem.get_name() == "FileError") std::fputs("--config: ", stderr);
  return app.exit(problem) == 0 ? 0 : yolk::cli::exit_usage;
}

/// Whether the word where a command should stand is none; says so.
bool is_no_command(const CLI::App& app, const char* prefix, const char* word) {
  if (word == nullptr || *word == '-') return false;
  std::string known;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) return false;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  std::fprintf(stderr, "%s: there is no command '%s', but: %s\n", prefix, word, known.c_str());
  return true;
}

/// `yolk serve …`: argv[0] is "serve".
int serve(int argc, char** argv) {
  CLI::App app{what_serve_does, "yolk serve"};
  yolk::cli::serve_options options;
  yolk::cli::declare_serve(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return end_parsing(app, problem);
  }
  return yolk::cli::run_service(options, "serve");
}

/// `yolk node …`, likewise.
int node(int argc, char** argv) {
  CLI::App app{what_node_does, "yolk node"};
  yolk::cli::node_command_options options;
  yolk::cli::declare_node(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return end_parsing(app, problem);
  }
  return yolk::cli::run_node(options);
}

/// For what nobody can go on after: the system has no thread or no memory for us. No defect, so no core file.
[[noreturn]] void end_for_want() {
  const char* want = nullptr;
  try {
    if (const auto current = std::current_exception()) std::rethrow_exception(current);
  } catch (const std::bad_alloc&) {
    want = "memory (ulimit -v, the container's limit)";
  } catch (const std::system_error& problem) {
    if (problem.code() == std::errc::resource_unavailable_try_again)
      want = "more threads (ulimit -u, ulimit -v, the container's limit of processes)";
    else
      std::fprintf(stderr, "yolk: %s\n", problem.what());
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "yolk: %s\n", problem.what());
  } catch (...) {
  }
  if (want == nullptr) std::abort();
  std::fprintf(stderr, "yolk: the system gives this process no %s\n", want);
  std::_Exit(yolk::cli::exit_failed);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_for_want);
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

  const char* first = argc > 1 ? argv[1] : nullptr;
  const char* second = argc > 2 ? argv[2] : nullptr;
  if (is_no_command(app, "yolk", first) ||
      (first != nullptr && first == model->get_name() && is_no_command(*model, "yolk model", second)))
    return yolk::cli::exit_usage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return end_parsing(app, problem);
  }
  if (chat_command->parsed()) return yolk::cli::run_chat(chat);
  if (replay_command->parsed()) return yolk::cli::run_replay(replay);
  if (ctl_commands.status->parsed()) return yolk::cli::run_ctl_status(ctl);
  if (ctl_commands.drain->parsed()) return yolk::cli::run_ctl_drain(ctl);
  if (inspect_command->parsed()) return yolk::cli::run_inspect(inspect);
  return yolk::cli::exit_usage;
}
