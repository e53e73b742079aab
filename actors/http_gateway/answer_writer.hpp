#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actors/http_gateway/choice.hpp"
#include "http/api_error.hpp"
#include "http/generation_response.hpp"

namespace yolk::actors {

struct answer_options {
  http::response_identity identity;
  std::vector<std::string> echo;  ///< per choice: text that comes before what is generated
  std::vector<std::pair<std::string, std::string>> headers;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool logprobs = false;
  bool keep_alive = true;
  bool chunked = true;  ///< false for HTTP/1.0: the end of the connection ends the stream
};

/// Turns what choices say into bytes for the wire: a stream of events, or one body at the end. Nothing is
/// written before there is something to say, so that a request which fails early gets a proper status. Owned
/// by a session.
class answer_writer {
 public:
  explicit answer_writer(answer_options options);

  /// A stream's head, with the first token: clients see that the answer has begun although its text may still
  /// be held back. Empty when nothing is streamed or it has begun already.
  std::string open() { return options_.stream ? begin() : std::string(); }
  /// Bytes to send now; empty when nothing is streamed.
  std::string add(const choice_delta& delta, const http::usage& running);
  /// The end of a good answer.
  std::string finish(const http::usage& usage);
  /// The end of a bad one: a status where nothing was sent yet, else an event.
  std::string fail(const http::api_error& error);
  /// A comment that keeps proxies from closing a quiet stream; empty before the stream began.
  std::string keepalive();
  /// The connection ends with this answer.
  void close_afterwards() { options_.keep_alive = false; }
  [[nodiscard]] bool begun() const { return begun_; }
  /// The connection cannot serve another request after this answer.
  [[nodiscard]] bool must_close() const { return !options_.keep_alive || (begun_ && !options_.chunked); }

 private:
  std::string begin();
  [[nodiscard]] std::string piece(std::string_view data) const;

  answer_options options_;
  std::vector<http::response_choice> choices_;
  bool begun_ = false;
};

/// A whole answer that is an error, with its Retry-After.
std::string format_error(const http::api_error& error,
                         const std::vector<std::pair<std::string, std::string>>& headers, bool keep_alive);

}  // namespace yolk::actors
