#include "http/chat_fields.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace yolk::http {
namespace {

using nlohmann::json;

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();  // the body's own limit holds

/// Parts are joined by a line break, as vLLM and llama-server join them for templates that take one string.
void read_parts(field_reader& turn, const std::string& name, const json& parts, std::string& content) {
  for (std::size_t i = 0; i < parts.size() && !turn.failed(); ++i) {
    const std::string part_name = name + "content[" + std::to_string(i) + "]";
    if (!parts[i].is_object()) {
      turn.refuse("content", "a string or a list of {\"type\": \"text\", \"text\": ...} parts", parts[i]);
      return;
    }
    field_reader part(parts[i], part_name + ".");
    std::string type;
    std::string text;
    const bool has_type = part.text("type", no_limit, type);
    if (has_type && type != "text") {
      part.unsupported("type", describe(*part.find("type")) + " is not supported: only text parts are.");
    }
    const bool has_text = part.text("text", no_limit, text);
    if (!has_type) part.fail("type", part_name + ".type is missing; it must be \"text\".");
    if (!has_text) part.fail("text", part_name + ".text is missing; it must be a string.");
    turn.adopt(part.error());
    if (i > 0) content += '\n';
    content += text;
  }
}

void read_turn(field_reader& fields, const json& value, std::size_t index, chat_turn& turn) {
  constexpr std::array<std::string_view, 6> roles = {"system",    "developer", "user",
                                                     "assistant", "tool",      "function"};
  const std::string name = "messages[" + std::to_string(index) + "]";
  if (!value.is_object()) {
    fields.fail("messages", name + " must be an object with role and content, got " + describe(value) + ".");
    return;
  }
  field_reader message(value, name + ".");
  if (!message.text("role", no_limit, turn.role))
    message.fail("role", name + ".role is missing; it must be a string.");
  if (!message.failed() && std::find(roles.begin(), roles.end(), turn.role) == roles.end()) {
    message.refuse("role", "one of system, developer, user, assistant, tool, function",
                   *message.find("role"));
  }
  // OpenAI renamed the system role; chat templates know the old name only.
  if (turn.role == "developer") turn.role = "system";
  if (const json* const calls = message.find("tool_calls"); calls != nullptr && !calls->empty()) {
    message.unsupported("tool_calls", "is not supported: this server does not call tools.");
  }
  const json* const content = message.find("content");
  if (content == nullptr) {
    message.fail("content", name + ".content is missing; it must be a string or a list of text parts.");
  } else if (content->is_string()) {
    turn.content = content->get_ref<const json::string_t&>();
  } else if (content->is_array() && !content->empty()) {
    read_parts(message, name + ".", *content, turn.content);
  } else {
    message.refuse("content", "a string or a list of one or more text parts", *content);
  }
  fields.adopt(message.error());
}

}  // namespace

void read_messages(field_reader& fields, std::vector<chat_turn>& turns) {
  const json* const messages = fields.find("messages");
  if (messages == nullptr) {
    fields.fail("messages", "messages is missing; it must be a list of at least one message.");
    return;
  }
  if (!messages->is_array() || messages->empty()) {
    fields.refuse("messages", "a list of at least one message", *messages);
    return;
  }
  turns.resize(messages->size());
  for (std::size_t i = 0; i < messages->size() && !fields.failed(); ++i) {
    read_turn(fields, (*messages)[i], i, turns[i]);
  }
}

}  // namespace yolk::http
