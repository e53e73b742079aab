#include <limits>
#include <nlohmann/json.hpp>

#include "http/chat_fields.hpp"
#include "http/field_reader.hpp"
#include "http/generation_request.hpp"
#include "http/json_body.hpp"

namespace yolk::http {

using nlohmann::json;

std::variant<tokenize_request, api_error> parse_tokenize_request(std::string_view body) {
  json root;
  if (auto error = read_json_object(body, {}, root)) return *std::move(error);
  tokenize_request request;
  field_reader fields(root);
  request.is_chat = fields.find("messages") != nullptr;
  if (request.is_chat) {
    if (fields.find("prompt") != nullptr) {
      fields.fail("prompt", "prompt and messages are two ways to say one thing; send one of them.");
    }
    read_messages(fields, request.messages);
    // A chat template writes the special tokens itself.
    request.add_special_tokens = false;
  } else if (!fields.text("prompt", std::numeric_limits<std::size_t>::max(), request.prompt)) {
    fields.fail("prompt", "prompt is missing; send a string as prompt, or a list of messages as messages.");
  }
  fields.boolean("add_special_tokens", request.add_special_tokens);
  fields.boolean("add_generation_prompt", request.add_generation_prompt);
  if (fields.failed()) return *fields.error();
  return request;
}

std::variant<std::vector<core::token_id>, api_error> parse_detokenize_request(std::string_view body) {
  json root;
  if (auto error = read_json_object(body, {}, root)) return *std::move(error);
  std::vector<core::token_id> tokens;
  field_reader fields(root);
  const json* const list = fields.find("tokens");
  if (list == nullptr) {
    fields.fail("tokens", "tokens is missing; it must be a list of token ids.");
  } else if (!list->is_array()) {
    fields.refuse("tokens", "a list of token ids", *list);
  } else {
    fields.adopt(read_ids(*list, "tokens", tokens));
  }
  if (fields.failed()) return *fields.error();
  return tokens;
}

}  // namespace yolk::http
