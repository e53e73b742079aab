#include "actors/http_gateway/answer_writer.hpp"

#include <optional>

#include "http/message_parser.hpp"

namespace yolk::actors {

answer_writer::answer_writer(answer_options options) : options_(std::move(options)) {
  choices_.resize(options_.echo.size());
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].index = static_cast<std::uint32_t>(i);
    choices_[i].has_logprobs = options_.logprobs;
    choices_[i].text = options_.echo[i];
    if (options_.stream) choices_[i].text_offset = http::count_characters(options_.echo[i]);
  }
}

std::string answer_writer::piece(std::string_view data) const {
  return options_.chunked ? http::format_chunk(data) : std::string(data);
}

std::string answer_writer::begin() {
  if (begun_) return {};
  begun_ = true;
  http::response_head head{.content_type = "text/event-stream", .headers = options_.headers};
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");
  head.keep_alive = options_.keep_alive && options_.chunked;
  std::string bytes =
      options_.chunked ? http::format_stream_head(head) : http::format_unchunked_stream_head(head);
  for (const http::response_choice& choice : choices_) {
    if (options_.identity.kind == http::endpoint::chat)
      bytes += piece(http::sse_role(options_.identity, choice.index));
    else if (!choice.text.empty())
      bytes += piece(
          http::sse_delta(options_.identity, {.index = choice.index, .text = choice.text}, std::nullopt));
  }
  return bytes;
}

std::string answer_writer::add(const choice_delta& delta, const http::usage& running) {
  http::response_choice& whole = choices_[delta.choice];
  if (!options_.stream) {
    whole.text += delta.text;
    whole.logprobs.insert(whole.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    whole.finish_reason = delta.finish_reason;
    whole.stop_reason = delta.stop_string;
    return {};
  }
  std::string bytes = begin();
  const http::response_choice part{.index = delta.choice,
                                   .text = delta.text,
                                   .finish_reason = delta.finish_reason,
                                   .stop_reason = delta.stop_string,
                                   .logprobs = delta.logprobs,
                                   .has_logprobs = options_.logprobs,
                                   .text_offset = whole.text_offset};
  if (options_.logprobs) whole.text_offset += http::count_characters(delta.text);
  const auto usage = options_.continuous_usage ? std::optional(running) : std::nullopt;
  return bytes + piece(http::sse_delta(options_.identity, part, usage));
}

std::string answer_writer::finish(const http::usage& usage) {
  if (!options_.stream)
    return http::format_response({.headers = options_.headers, .keep_alive = options_.keep_alive},
                                 http::format_response_body(options_.identity, choices_, usage));
  std::string bytes = begin();
  if (options_.include_usage) bytes += piece(http::sse_usage(options_.identity, usage));
  bytes += piece(http::sse_done());
  if (options_.chunked) bytes += http::last_chunk();
  return bytes;
}

std::string answer_writer::fail(const http::api_error& error) {
  if (!begun_) return format_error(error, options_.headers, options_.keep_alive);
  std::string bytes = piece(http::sse_error(error)) + piece(http::sse_done());
  if (options_.chunked) bytes += http::last_chunk();
  return bytes;
}

std::string answer_writer::keepalive() {
  return begun_ ? piece(http::sse_keepalive()) : std::string();
}

std::string format_error(const http::api_error& error,
                         const std::vector<std::pair<std::string, std::string>>& headers, bool keep_alive) {
  http::response_head head{.status = error.status, .headers = headers, .keep_alive = keep_alive};
  if (error.retry_after_seconds)
    head.headers.emplace_back("Retry-After", std::to_string(*error.retry_after_seconds));
  if (error.status == 401) head.headers.emplace_back("WWW-Authenticate", "Bearer");
  return http::format_response(head, http::to_json(error));
}

}  // namespace yolk::actors
