#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/message_parser.hpp"

namespace yolk::tests {

struct http_answer {
  int status = 0;
  std::string body;
  std::string retry_after, allow, connection, content_type;
};

/// A client with a plain socket. Whatever it waits for comes within `patience` or the test fails by an
/// exception.
class gateway_client {
 public:
  explicit gateway_client(std::uint16_t port, int receive_buffer_bytes = 0);
  ~gateway_client();
  gateway_client(const gateway_client&) = delete;
  gateway_client& operator=(const gateway_client&) = delete;

  void send(std::string_view bytes);
  /// As send, but says whether the server still takes bytes.
  bool try_send(std::string_view bytes);
  void post(std::string_view path, std::string_view body, std::string_view headers = {});
  void get(std::string_view path, std::string_view headers = {});
  /// The next whole response.
  http_answer answer();
  /// Reads a response's body until it contains `text`; returns all of it so far.
  std::string read_until(std::string_view text);
  /// Waits until the server has closed; true when it did.
  bool closed_by_server();
  void close();
  void shut_writing();
  /// Raw bytes received and not taken yet, after waiting until they contain `text`.
  std::string raw_until(std::string_view text);

 private:
  bool receive();  ///< false at the end

  int socket_ = -1;
  std::string raw_;
  http::response_parser parser_;
  std::string body_;
};

/// The data of the SSE events in a stream's body.
std::vector<std::string> events_of(std::string_view body);
/// The value of a string field's first appearance in JSON that this server wrote, escapes as they are.
std::string field_of(std::string_view json, std::string_view name);
/// All values of a string field, one after another.
std::string all_of_field(std::string_view json, std::string_view name);

}  // namespace yolk::tests
