#include "cli/chat_command.hpp"

#include <CLI/CLI.hpp>

namespace yolk::cli {

CLI::App* add_chat(CLI::App& app, chat_options& options) {
  auto* chat = app.add_subcommand("chat", "Talk to a server from the terminal");
  chat->add_option("--url", options.url, "The server")->capture_default_str();
  chat->add_option("--model", options.model, "The model's name (default: the server's only one)");
  chat->add_option("--system", options.system, "The system message");
  auto* key = chat->add_option("--api-key", options.api_key, "Sent as a bearer token");
  chat->add_option("--api-key-file", options.api_key_file,
                   "A file with that key: other users of this machine can read a command line, not the file")
      ->excludes(key);
  chat->add_option("--max-tokens", options.max_tokens, "Tokens of an answer; 0 = what the server gives")
      ->capture_default_str();
  chat->add_option("--temperature", options.temperature, "0 = greedy (default: the server's)");
  chat->add_flag("--stats", options.stats, "Show tokens, speed and cached tokens after each answer");
  return chat;
}

}  // namespace yolk::cli
