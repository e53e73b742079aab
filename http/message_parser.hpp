#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/api_error.hpp"

namespace yolk::http {

struct parser_limits {
  std::size_t max_header_bytes = 32 * 1024;
  std::size_t max_body_bytes = 16 * 1024 * 1024;
  std::size_t max_header_count = 128;
  /// Complete requests that wait for next(); further bytes stay unparsed (see request_parser::full).
  std::size_t max_queued_requests = 32;
};

struct request_message {
  std::string method;  ///< upper case as sent
  std::string target;  ///< as sent, query included
  std::string path;    ///< percent-decoded, query removed
  std::map<std::string, std::string> query;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool keep_alive = true;
  int minor_version = 1;  ///< HTTP/1.0 or HTTP/1.1; a client of 1.0 understands no chunks
  /// First header of that name, case-insensitive; empty when absent.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

/// HTTP/1.1 requests from bytes as they arrive: keep-alive, pipelining, Content-Length and chunked bodies. No
/// sockets. Owned by one connection, lives as long, one thread. What comes out does not depend on how the
/// bytes were cut. Strict where leniency lets a proxy and this server disagree about where a request ends
/// (RFC 9112, section 11.2). After a request that ends the connection (keep_alive == false) all input is
/// ignored.
class request_parser {
 public:
  explicit request_parser(parser_limits limits);
  ~request_parser();
  request_parser(request_parser&&) noexcept;
  request_parser& operator=(request_parser&&) noexcept;

  /// Appends bytes and parses as far as they go; complete requests queue up. After an error all input is
  /// ignored; the requests before it are still there, and are answered first.
  void feed(std::string_view bytes);
  [[nodiscard]] std::optional<request_message> next();
  /// 400 malformed, 413 body too large, 431 headers too large: answer it, then close.
  [[nodiscard]] const std::optional<api_error>& error() const;
  /// True once after the head of a request with "Expect: 100-continue" was read and its body has not arrived.
  bool take_expect_continue();
  /// Bytes held for a request that is not complete, and bytes that wait behind a full queue.
  [[nodiscard]] std::size_t buffered_bytes() const;
  /// Enough requests are queued (max_queued_requests, or max_body_bytes in all): stop reading from the
  /// connection until next() has taken some. Who goes on feeding gets a 400 once buffered_bytes() exceeds
  /// both limits together.
  [[nodiscard]] bool full() const;

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
/// The standard's phrase for a status; "Unknown" for one that this server does not send.
std::string_view reason_phrase(int status);
/// A whole response with Content-Length. Line breaks in header values are dropped.
std::string format_response(const response_head& head, std::string_view body);
/// The head of a chunked (streamed) response, and its pieces.
std::string format_stream_head(const response_head& head);
/// The head of a streamed response to an HTTP/1.0 client: no chunks, the end of the connection ends the body.
std::string format_unchunked_stream_head(const response_head& head);
std::string format_chunk(std::string_view data);  ///< one chunk; empty data gives an empty string
std::string_view last_chunk();
/// The interim answer to "Expect: 100-continue".
std::string_view continue_response();

/// The client's side, for `yolk chat` and tests: a response's status, headers and (de-chunked) body as they
/// arrive.
class response_parser {
 public:
  response_parser();
  ~response_parser();
  response_parser(response_parser&&) noexcept;
  response_parser& operator=(response_parser&&) noexcept;
  void feed(std::string_view bytes);
  void finish();  ///< the server closed the connection
  [[nodiscard]] bool head_complete() const;
  [[nodiscard]] int status() const;
  [[nodiscard]] std::string header(std::string_view name) const;
  /// Body bytes since the last call.
  std::string take_body();
  [[nodiscard]] bool complete() const;
  /// Bytes that came after a complete response (the next one's, on a connection that was kept).
  std::string take_rest();
  [[nodiscard]] bool failed() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace yolk::http
