#include <algorithm>
#include <charconv>

#include "http/message_parser.hpp"

namespace yolk::http {
namespace {

std::string common_head(const response_head& head) {
  std::string out = "HTTP/1.1 " + std::to_string(head.status) + " ";
  out += reason_phrase(head.status);
  out += "\r\n";
  const auto add = [&](std::string_view name, std::string_view value) {
    out += name;
    out += ": ";
    // A value from elsewhere must not begin a header of its own.
    std::copy_if(value.begin(), value.end(), std::back_inserter(out),
                 [](char c) { return c != '\r' && c != '\n'; });
    out += "\r\n";
  };
  if (!head.content_type.empty()) add("Content-Type", head.content_type);
  for (const auto& [name, value] : head.headers) add(name, value);
  return out;
}

std::string_view connection(bool keep_alive) {
  return keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
}

}  // namespace

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

std::string format_response(const response_head& head, std::string_view body) {
  std::string out = common_head(head);
  if (head.status != 204 && head.status != 304)
    out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  out += connection(head.keep_alive);
  out += "\r\n";
  if (head.status != 204 && head.status != 304) out += body;
  return out;
}

std::string format_stream_head(const response_head& head) {
  std::string out = common_head(head) + "Transfer-Encoding: chunked\r\n";
  out += connection(head.keep_alive);
  return out + "\r\n";
}

std::string format_unchunked_stream_head(const response_head& head) {
  std::string out = common_head(head);
  out += connection(false);
  return out + "\r\n";
}

std::string format_chunk(std::string_view data) {
  if (data.empty()) return {};
  char size[20];
  const auto end = std::to_chars(size, size + sizeof size, data.size(), 16).ptr;
  std::string out(size, end);
  out.reserve(out.size() + data.size() + 4);
  out += "\r\n";
  out += data;
  out += "\r\n";
  return out;
}

std::string_view last_chunk() {
  return "0\r\n\r\n";
}

std::string_view continue_response() {
  return "HTTP/1.1 100 Continue\r\n\r\n";
}

}  // namespace yolk::http
