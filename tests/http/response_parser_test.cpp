#include <doctest/doctest.h>

#include "http/message_parser.hpp"

using namespace yolk::http;

namespace {

response_parser fed(std::string_view bytes) {
  response_parser parser;
  parser.feed(bytes);
  return parser;
}

}  // namespace

TEST_CASE("a formatted response is read back whole") {
  const response_head head{.status = 429, .headers = {{"Retry-After", "3"}}, .keep_alive = false};
  const std::string text = format_response(head, R"({"a":1})");
  CHECK(text.starts_with("HTTP/1.1 429 Too Many Requests\r\n"));
  response_parser parser = fed(text);
  CHECK(parser.head_complete());
  CHECK(parser.complete());
  CHECK(parser.status() == 429);
  CHECK(parser.header("retry-after") == "3");
  CHECK(parser.header("Content-Type") == "application/json");
  CHECK(parser.header("Connection") == "close");
  CHECK(parser.take_body() == R"({"a":1})");
  CHECK(parser.take_body().empty());
}

TEST_CASE("a streamed response is read back piece by piece, one byte at a time") {
  response_parser parser;
  std::string body;
  const auto feed = [&](const std::string& text) {
    for (const char c : text) {
      parser.feed({&c, 1});
      body += parser.take_body();
    }
  };
  feed(format_stream_head({.content_type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}}));
  CHECK(parser.head_complete());
  CHECK(parser.header("Transfer-Encoding") == "chunked");
  feed(format_chunk("data: one\n\n"));
  CHECK(body == "data: one\n\n");
  feed(format_chunk(""));
  CHECK_FALSE(parser.complete());  // an empty chunk would have ended the stream
  feed(format_chunk(std::string(70'000, 'z')));
  CHECK(body.size() == 11 + 70'000);
  CHECK_FALSE(parser.complete());
  feed(std::string(last_chunk()));
  CHECK(parser.complete());
  CHECK_FALSE(parser.failed());
}

TEST_CASE("a stream for an HTTP/1.0 client ends with the connection") {
  const std::string head = format_unchunked_stream_head({.content_type = "text/event-stream"});
  CHECK(head.find("chunked") == std::string::npos);
  response_parser parser = fed(head + "data: x\n\n");
  CHECK(parser.header("Connection") == "close");
  CHECK_FALSE(parser.complete());
  parser.finish();
  CHECK(parser.complete());
  CHECK(parser.take_body() == "data: x\n\n");
}

TEST_CASE("a connection that ends early is a failure, not a short answer") {
  for (const std::string& text : {std::string("HTTP/1.1 200 OK\r\nContent-Le"),
                                  std::string("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"),
                                  format_stream_head({}) + format_chunk("abc")}) {
    response_parser parser = fed(text);
    parser.finish();
    CHECK(parser.failed());
    CHECK_FALSE(parser.complete());
  }
}

TEST_CASE("interim responses are stepped over") {
  response_parser parser = fed(std::string(continue_response()) + format_response({}, "{}"));
  CHECK(parser.status() == 200);
  CHECK(parser.complete());
}

TEST_CASE("bytes after a complete response are the next one's") {
  const std::string second = format_response({.status = 404}, "no");
  response_parser parser = fed(format_response({}, "yes") + second);
  CHECK(parser.take_body() == "yes");
  CHECK(parser.take_rest() == second);
}

TEST_CASE("a status that has no body gets none") {
  const std::string text = format_response({.status = 204, .content_type = ""}, "ignored");
  CHECK(text.find("Content-Length") == std::string::npos);
  CHECK(text.ends_with("\r\n\r\n"));
  CHECK(fed(text).complete());
}

TEST_CASE("a header value cannot begin a header of its own") {
  response_parser parser = fed(format_response({.headers = {{"X-Model", "a\r\nSet-Cookie: b"}}}, ""));
  CHECK(parser.header("X-Model") == "aSet-Cookie: b");
  CHECK(parser.header("Set-Cookie").empty());
}

TEST_CASE("what is no HTTP response fails") {
  CHECK(fed("SSH-2.0-OpenSSH\r\n").failed());
  CHECK(fed("HTTP/1.1 2x0 OK\r\n").failed());
  CHECK(fed("HTTP/1.1 200 OK\r\nbroken\r\n").failed());
  CHECK(fed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").failed());
  CHECK(fed(std::string(70 * 1024, 'x')).failed());
}
