#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "core/sampling_params.hpp"
#include "http/api_error.hpp"

namespace yolk::http {

struct chat_turn {
  std::string role;     ///< system (also for "developer"), user, assistant, tool, function
  std::string content;  ///< text parts joined by a line break; other parts are a 400
};

enum class endpoint : std::uint8_t { chat, completions };

/// One prompt of a completions request: text, or token ids.
using prompt_input = std::variant<std::string, std::vector<core::token_id>>;

/// A validated body of POST /v1/chat/completions or /v1/completions. What needs the tokenizer (context
/// length, vocabulary range) is checked later, by the gateway.
struct generation_request {
  endpoint kind = endpoint::chat;
  std::string model;                  ///< empty = the only one
  std::vector<chat_turn> messages;    ///< chat
  std::vector<prompt_input> prompts;  ///< completions; one or more
  core::sampling_params
      sampling;  ///< max_tokens = 0: not given (chat: the rest of the context; completions: 16)
  bool seed_given = false;
  std::uint32_t n = 1;
  std::vector<std::string> stop;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  bool stream = false;
  bool include_usage = false;     ///< stream_options.include_usage
  bool continuous_usage = false;  ///< stream_options.continuous_usage_stats
  bool echo = false;              ///< completions
  bool add_generation_prompt = true;
  bool add_special_tokens = true;  ///< completions with text: whether the tokenizer's BOS goes in front
  bool enable_thinking = true;     ///< chat_template_kwargs.enable_thinking
  std::string cache_salt;
  std::string user;
};

struct request_limits {
  std::uint32_t max_n = 16;
  std::uint32_t max_prompts = 256;
  std::uint32_t max_stop_strings = 16;
  std::uint32_t max_stop_bytes = 1024;
  std::uint32_t max_logit_bias = 1024;
  std::uint32_t max_top_logprobs = 20;
  std::uint32_t max_salt_bytes = 256;
  std::uint32_t max_stop_token_ids = 256;
  std::uint32_t max_user_bytes = 1024;
};

using generation_result = std::variant<generation_request, api_error>;
/// Unknown fields are accepted. A bad field is a 400 that names the field, its value and its limit; a field
/// that asks for what is not implemented (tools with tool_choice "required", response_format json_schema, …)
/// a 400 that says so.
generation_result parse_generation_request(endpoint kind, std::string_view body,
                                           const request_limits& limits);

struct tokenize_request {
  bool is_chat = false;
  std::string prompt;
  std::vector<chat_turn> messages;
  bool add_special_tokens = true;
  bool add_generation_prompt = true;
};
std::variant<tokenize_request, api_error> parse_tokenize_request(std::string_view body);
std::variant<std::vector<core::token_id>, api_error> parse_detokenize_request(std::string_view body);

}  // namespace yolk::http
