#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "http/generation_request.hpp"

namespace yolk::http {

struct usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t cached_tokens = 0;
};

struct token_logprob {
  std::string token;  ///< its bytes (may be an incomplete character: JSON shows U+FFFD, `bytes` is exact)
  float logprob = 0.0f;
  std::vector<std::pair<std::string, float>> top;
};

/// What stays the same over all pieces of one answer.
struct response_identity {
  endpoint kind = endpoint::chat;
  std::string id;  ///< "chatcmpl-…" or "cmpl-…"
  std::int64_t created = 0;
  std::string model;
  std::string system_fingerprint;
  /// stream_options.include_usage was set: OpenAI's chunks then carry "usage": null until the one that has
  /// it.
  bool stream_usage = false;
};

struct response_choice {
  std::uint32_t index = 0;
  std::string text;
  std::string finish_reason;               ///< "stop", "length"; empty = null
  std::optional<std::string> stop_reason;  ///< the stop string that ended it (vLLM's field)
  std::vector<token_logprob> logprobs;
  bool has_logprobs = false;
  /// Completions with logprobs: characters of this choice before `text` (sent earlier, or echoed); the base
  /// of text_offset.
  std::uint64_t text_offset = 0;
};

/// A whole answer (not streamed).
std::string format_response_body(const response_identity&, const std::vector<response_choice>&, const usage&);

/// SSE events ("data: …\n\n"), in the order that clients expect: role (chat), deltas, finish, usage, [DONE].
/// sse_role is empty for completions, which have no role. sse_delta is empty when there is nothing to say,
/// and two events (delta, then finish) when the choice has both text and a finish reason.
std::string sse_role(const response_identity&, std::uint32_t index);
std::string sse_delta(const response_identity&, const response_choice&,
                      const std::optional<usage>& running_usage);
std::string sse_usage(const response_identity&, const usage&);
std::string sse_error(const api_error&);
std::string_view sse_done();
std::string_view sse_keepalive();  ///< a comment line

struct model_card {
  std::string id;
  std::int64_t created = 0;
  std::uint32_t max_model_len = 0;
};
std::string format_models(const std::vector<model_card>&);
std::string format_model(const model_card&);
std::string format_tokenize(const std::vector<core::token_id>& tokens, std::uint32_t max_model_len);
std::string format_detokenize(std::string_view text);

/// A JSON string literal with quotes; bytes that are no UTF-8 become U+FFFD.
std::string quote(std::string_view text);
/// Characters (code points) in text, for text_offset; a token's share of a character that it does not begin
/// is 0.
std::uint64_t count_characters(std::string_view text);

}  // namespace yolk::http
