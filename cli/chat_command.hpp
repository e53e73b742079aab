#pragma once

#include "cli/chat.hpp"

namespace CLI {
class App;
}

namespace yolk::cli {

/// Declares `yolk chat`.
CLI::App* add_chat(CLI::App& app, chat_options& options);

}  // namespace yolk::cli
