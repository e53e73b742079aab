#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/http_gateway/session_context.hpp"
#include "core/ids.hpp"
#include "http/api_error.hpp"
#include "http/generation_request.hpp"
#include "kvcache/block_key.hpp"

namespace yolk::actors {

/// A request that is known to be good: its prompts are tokens that fit into the context, its defaults are
/// filled in.
struct generation_plan {
  http::generation_request request;
  struct prompt {
    std::vector<core::token_id> tokens;
    std::uint32_t max_tokens = 0;
    std::string echo;  ///< its text, where the client asked to have it back
  };
  std::vector<prompt> prompts;
  kvcache::block_key root;

  [[nodiscard]] std::uint32_t choice_count() const {
    return static_cast<std::uint32_t>(prompts.size()) * request.n;
  }
  [[nodiscard]] std::uint64_t prompt_tokens() const;
};

struct plan_origin {
  http::endpoint kind = http::endpoint::chat;
  std::string tenant;
  std::uint64_t drawn_seed = 0;  ///< used where the client gave none
};

using plan_result = std::variant<generation_plan, http::api_error>;

/// Parses, applies the chat template, tokenises, checks against the model's limits. Pure; takes milliseconds
/// per 100 KB of text.
plan_result plan_generation(const session_context& context, const plan_origin& origin, std::string_view body);

/// The JSON answers of the two tokenizer endpoints.
std::variant<std::string, http::api_error> tokenize(const session_context& context, std::string_view body);
std::variant<std::string, http::api_error> detokenize(const session_context& context, std::string_view body);

}  // namespace yolk::actors
