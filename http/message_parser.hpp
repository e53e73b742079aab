#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/api_error.hpp"

namespace yolk::http {

struct parser_limits {
  std::size_t max_header_bytes = 32 * 1024;
  std::size_t max_body_bytes = 16 * 1024 * 1024;
};

struct request_message {
  std::string method;   ///< upper case as sent
  std::string target;   ///< as sent, query included
  std::string path;     ///< percent-decoded, query removed
  std::map<std::string, std::string> query;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool keep_alive = true;
  /// First header of that name, case-insensitive; empty when absent.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

/// HTTP/1.1 requests from bytes as they arrive: keep-alive, pipelining, Content-Length and chunked bodies. No sockets.
class request_parser {
 public:
  explicit request_parser(parser_limits limits);
  ~request_parser();
  request_parser(request_parser&&) noexcept;
  request_parser& operator=(request_parser&&) noexcept;

  /// Appends bytes and parses as far as they go; complete requests queue up. After an error all input is ignored.
  void feed(std::string_view bytes);
  [[nodiscard]] std::optional<request_message> next();
  /// 400 malformed, 413 body too large, 431 headers too large: answer it, then close.
  [[nodiscard]] const std::optional<api_error>& error() const;
  /// True once after the head of a request with "Expect: 100-continue" was read and its body has not arrived.
  bool take_expect_continue();
  /// Bytes held for a request that is not complete.
  [[nodiscard]] std::size_t buffered_bytes() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

struct response_head {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  bool keep_alive = true;
};
/// A whole response with Content-Length.
std::string format_response(const response_head& head, std::string_view body);
/// The head of a chunked (streamed) response, and its pieces.
std::string format_stream_head(const response_head& head);
std::string format_chunk(std::string_view data);  ///< one chunk; empty data gives an empty string
std::string_view last_chunk();

/// The client's side, for `yolk chat` and tests: a response's status, headers and (de-chunked) body as they arrive.
class response_parser {
 public:
  response_parser();
  ~response_parser();
  void feed(std::string_view bytes);
  void finish();  ///< the server closed the connection
  [[nodiscard]] bool head_complete() const;
  [[nodiscard]] int status() const;
  [[nodiscard]] std::string header(std::string_view name) const;
  /// Body bytes since the last call.
  std::string take_body();
  [[nodiscard]] bool complete() const;
  [[nodiscard]] bool failed() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace yolk::http
