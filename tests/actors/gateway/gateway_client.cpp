#include "tests/actors/gateway/gateway_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace yolk::tests {

namespace {

constexpr timeval patience{.tv_sec = 60, .tv_usec = 0};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("gateway_client: " + what + ": " + std::strerror(errno));
}

}  // namespace

gateway_client::gateway_client(std::uint16_t port, int receive_buffer_bytes) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) fail("socket");
  if (receive_buffer_bytes > 0)
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("connect");
}

gateway_client::~gateway_client() {
  close();
}

bool gateway_client::try_send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void gateway_client::send(std::string_view bytes) {
  if (!try_send(bytes)) fail("send");
}

void gateway_client::post(std::string_view path, std::string_view body, std::string_view headers) {
  send("POST " + std::string(path) +
       " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
       std::to_string(body.size()) + "\r\n" + std::string(headers) + "\r\n" + std::string(body));
}

void gateway_client::get(std::string_view path, std::string_view headers) {
  send("GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(headers) + "\r\n");
}

bool gateway_client::receive() {
  char bytes[16384];
  const auto count = ::recv(socket_, bytes, sizeof bytes, 0);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    fail("nothing came, after '" + raw_ + body_ + "'");
  if (count <= 0) return false;
  raw_.append(bytes, static_cast<std::size_t>(count));
  return true;
}

http_answer gateway_client::answer() {
  while (!parser_.complete()) {
    if (!raw_.empty()) {
      parser_.feed(raw_);
      raw_.clear();
    } else if (!receive()) {
      parser_.finish();
      if (!parser_.complete())
        throw std::runtime_error("gateway_client: closed before the answer was complete");
    }
    if (parser_.failed()) throw std::runtime_error("gateway_client: not HTTP");
  }
  http_answer got{.status = parser_.status(),
                  .body = body_ + parser_.take_body(),
                  .retry_after = parser_.header("retry-after"),
                  .allow = parser_.header("allow"),
                  .connection = parser_.header("connection"),
                  .content_type = parser_.header("content-type")};
  body_.clear();
  raw_ = parser_.take_rest();
  parser_ = http::response_parser();
  return got;
}

std::string gateway_client::read_until(std::string_view text) {
  while (body_.find(text) == std::string::npos) {
    if (raw_.empty() && !receive())
      throw std::runtime_error("gateway_client: closed before '" + std::string(text) + "', after '" + body_ +
                               "'");
    parser_.feed(raw_);
    raw_.clear();
    body_ += parser_.take_body();
    if (parser_.failed()) throw std::runtime_error("gateway_client: not HTTP");
  }
  return body_;
}

std::string gateway_client::raw_until(std::string_view text) {
  while (raw_.find(text) == std::string::npos)
    if (!receive()) throw std::runtime_error("gateway_client: closed before '" + std::string(text) + "'");
  return raw_;
}

bool gateway_client::closed_by_server() {
  while (receive()) {
  }
  return true;
}

void gateway_client::shut_writing() {
  ::shutdown(socket_, SHUT_WR);
}

void gateway_client::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

std::vector<std::string> events_of(std::string_view body) {
  std::vector<std::string> events;
  constexpr std::string_view start = "data: ";
  for (auto at = body.find(start); at != std::string_view::npos; at = body.find(start, at)) {
    at += start.size();
    events.emplace_back(body.substr(at, body.find("\n\n", at) - at));
  }
  return events;
}

namespace {

/// The value's first character after `from`, npos when there is none.
std::size_t value_at(std::string_view json, std::string_view name, std::size_t from) {
  const std::string key = "\"" + std::string(name) + "\":\"";
  const auto at = json.find(key, from);
  return at == std::string_view::npos ? at : at + key.size();
}

}  // namespace

std::string field_of(std::string_view json, std::string_view name) {
  const auto at = value_at(json, name, 0);
  if (at == std::string_view::npos) return {};
  return std::string(json.substr(at, json.find('"', at) - at));
}

std::string all_of_field(std::string_view json, std::string_view name) {
  std::string all;
  for (auto at = value_at(json, name, 0); at != std::string_view::npos; at = value_at(json, name, at))
    all += json.substr(at, json.find('"', at) - at);
  return all;
}

}  // namespace yolk::tests
