#include "http/message_parser.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "core/random.hpp"

using namespace yolk::http;
using yolk::core::random_source;

namespace {

/// Everything that can be seen of a parser's result, so that two runs compare as text.
std::string seen(request_parser& parser) {
  std::ostringstream out;
  while (auto message = parser.next()) {
    out << message->method << '|' << message->target << '|' << message->path << '|' << message->keep_alive
        << '|' << message->minor_version << '|';
    for (const auto& [key, value] : message->query) out << key << '=' << value << '&';
    for (const auto& [name, value] : message->headers) out << name << ':' << value << ';';
    out << '|' << message->body << '\n';
  }
  if (parser.error()) out << "error " << parser.error()->status << ' ' << parser.error()->message;
  return out.str();
}

request_parser fed(std::string_view bytes, parser_limits limits = {}) {
  request_parser parser(limits);
  parser.feed(bytes);
  return parser;
}

int status_of(std::string_view bytes, parser_limits limits = {}) {
  request_parser parser = fed(bytes, limits);
  return parser.error() ? parser.error()->status : 0;
}

const std::string get = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";

std::string post(std::string_view headers, std::string_view body) {
  return "POST /v1/completions HTTP/1.1\r\nHost: a\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

}  // namespace

TEST_CASE("a request without a body is complete with its blank line") {
  request_parser parser =
      fed("GET /v1/models?limit=3&name=a%20b+c&flag HTTP/1.1\r\nHost: a\r\nX-Thing:  v \t\r\n\r\n");
  const auto message = parser.next();
  REQUIRE(message);
  CHECK(message->method == "GET");
  CHECK(message->target == "/v1/models?limit=3&name=a%20b+c&flag");
  CHECK(message->path == "/v1/models");
  CHECK(message->query ==
        std::map<std::string, std::string>{{"limit", "3"}, {"name", "a b c"}, {"flag", ""}});
  CHECK(message->header("x-thing") == "v");
  CHECK(message->header("absent").empty());
  CHECK(message->keep_alive);
  CHECK_FALSE(parser.next());
  CHECK(parser.buffered_bytes() == 0);
}

TEST_CASE("bodies come by Content-Length and by chunks") {
  request_parser parser = fed(post("Content-Length: 5\r\n", "hello") +
                              post("Transfer-Encoding: Chunked\r\n",
                                   "5;ext=\"1\"\r\nhello\r\nA\r\n world 123\r\n0\r\nX-T: 1\r\n\r\n") +
                              post("Content-Length: 0\r\n", "") + get);
  CHECK(parser.next()->body == "hello");
  CHECK(parser.next()->body == "hello world 123");
  CHECK(parser.next()->body.empty());
  CHECK(parser.next()->method == "GET");
  CHECK_FALSE(parser.error());
}

TEST_CASE("keep-alive follows the version and the Connection header") {
  const auto keeps = [](std::string_view version, std::string_view connection) {
    std::string text = "GET / HTTP/" + std::string(version) + "\r\nHost: a\r\n";
    if (!connection.empty()) text += "Connection: " + std::string(connection) + "\r\n";
    request_parser parser = fed(text + "\r\n");
    return parser.next()->keep_alive;
  };
  CHECK(keeps("1.1", ""));
  CHECK(keeps("1.1", "upgrade"));
  CHECK_FALSE(keeps("1.1", "foo, Close"));
  CHECK_FALSE(keeps("1.0", ""));
  CHECK(keeps("1.0", "Keep-Alive"));
  CHECK_FALSE(keeps("1.0", "keep-alive, close"));
}

TEST_CASE("bytes after a request that ends the connection are ignored and not held") {
  request_parser parser = fed("GET / HTTP/1.0\r\n\r\n" + get);
  parser.feed(std::string(100'000, 'x'));
  CHECK(parser.next());
  CHECK_FALSE(parser.next());
  CHECK_FALSE(parser.error());
  CHECK(parser.buffered_bytes() == 0);
}

TEST_CASE("a large body is accepted up to the limit and refused from its Content-Length alone") {
  const parser_limits limits;
  const std::string body(limits.max_body_bytes, 'b');
  request_parser parser = fed(post("Content-Length: " + std::to_string(body.size()) + "\r\n", body));
  CHECK(parser.next()->body == body);

  const std::string head = post("Content-Length: " + std::to_string(body.size() + 1) + "\r\n", "");
  request_parser refused = fed(head);
  REQUIRE(refused.error());
  CHECK(refused.error()->status == 413);
  CHECK(refused.error()->message.find("16777216") != std::string::npos);
  CHECK(refused.error()->message.find("16777217") != std::string::npos);
  CHECK(status_of(post("Content-Length: 99999999999999999999999999\r\n", "")) == 413);
}

TEST_CASE("a chunked body is refused once its chunks add up to more than the limit") {
  const parser_limits limits{.max_body_bytes = 8};
  CHECK(status_of(post("Transfer-Encoding: chunked\r\n", "8\r\n12345678\r\n0\r\n\r\n"), limits) == 0);
  CHECK(status_of(post("Transfer-Encoding: chunked\r\n", "8\r\n12345678\r\n1\r\n"), limits) == 413);
  CHECK(status_of(post("Transfer-Encoding: chunked\r\n", "fffffffffffffff\r\n"), limits) == 413);
}

TEST_CASE("heads are limited in bytes and in headers") {
  const std::string large = "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(32 * 1024, 'x');
  CHECK(status_of(large) == 431);
  CHECK(status_of("GET /" + std::string(33 * 1024, 'x')) == 431);
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 127; ++i) many += "A: b\r\n";
  CHECK(status_of(many + "\r\n") == 0);
  CHECK(status_of(many + "A: b\r\n\r\n") == 431);
}

TEST_CASE("what two readers could frame in two ways is refused") {
  CHECK(status_of(post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")) == 400);
  CHECK(status_of(post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello")) == 400);
  CHECK(status_of(post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello")) == 400);
  CHECK(status_of(post("Content-Length: 5, 5\r\n", "hello")) == 400);
  CHECK(status_of(post("Content-Length: +5\r\n", "hello")) == 400);
  CHECK(status_of(post("Content-Length: -5\r\n", "hello")) == 400);
  CHECK(status_of(post("Content-Length: 0x5\r\n", "hello")) == 400);
  CHECK(status_of(post("Content-Length:\r\n", "hello")) == 400);
  CHECK(status_of(post("Content-Length : 5\r\n", "hello")) == 400);
  CHECK(status_of(post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")) == 501);
  CHECK(status_of(post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n")) == 400);
  CHECK(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") == 400);
}

TEST_CASE("malformed heads are refused") {
  const std::string_view bad[] = {
      "GET / HTTP/1.1\nHost: a\n\n",
      "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nX: a\x01\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "GET  HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /\r\n\r\n",
      "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
      "G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET example.com HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /#part HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.1.\r\nHost: a\r\n\r\n",
      "\r\n\r\n\r\n\r\n\r\n",
  };
  for (const std::string_view text : bad) {
    CAPTURE(text);
    CHECK(status_of(text) == 400);
  }
  CHECK(status_of("GET / HTTP/2.0\r\nHost: a\r\n\r\n") == 505);
  CHECK(status_of(std::string("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29)) == 400);
}

TEST_CASE("malformed chunks are refused") {
  const std::string_view bad[] = {
      "5\r\nhelloX\r\n", "g\r\n",        "\r\n",         "5\nhello\r\n",   " 5\r\nhello\r\n",        "-1\r\n",
      "0x5\r\n",         "5\r\nhello\n", "0\r\nbad\r\n", "1\r\na\r\n\r\n", "0\r\n X: folded\r\n\r\n"};
  for (const std::string_view text : bad) {
    CAPTURE(text);
    CHECK(status_of(post("Transfer-Encoding: chunked\r\n", text)) == 400);
  }
  CHECK(status_of(post("Transfer-Encoding: chunked\r\n", "5;" + std::string(300, 'x'))) == 400);
  std::string trailers = "0\r\n";
  for (int i = 0; i < 2000; ++i) trailers += "A: b\r\n";
  CHECK(status_of(post("Transfer-Encoding: chunked\r\n", trailers)) == 400);
}

TEST_CASE("broken percent-encoding is refused, in the path and in the query") {
  const auto target = [](std::string_view text) {
    return status_of("GET " + std::string(text) + " HTTP/1.1\r\nHost: a\r\n\r\n");
  };
  CHECK(target("/v1/models/a%2Fb%c3%a9") == 0);
  for (const std::string_view bad : {"/%", "/%4", "/%4g", "/%00", "/a?b=%zz", "/a?%=1"}) {
    CAPTURE(bad);
    CHECK(target(bad) == 400);
  }
  request_parser parser = fed("GET /v1/models/a%2Fb+c HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(parser.next()->path == "/v1/models/a/b+c");
}

TEST_CASE("the absolute form of a target gives the same path") {
  request_parser parser = fed(
      "GET http://a:80/v1/models?x=1 HTTP/1.1\r\nHost: a\r\n\r\nGET HTTP://a HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto first = parser.next();
  CHECK(first->path == "/v1/models");
  CHECK(first->query.at("x") == "1");
  CHECK(parser.next()->path == "/");
}

TEST_CASE("a body that is compressed is refused before it is read") {
  CHECK(status_of(post("Content-Encoding: gzip\r\nContent-Length: 9\r\n", "x")) == 415);
  CHECK(status_of(post("Content-Encoding: identity, br\r\nTransfer-Encoding: chunked\r\n", "")) == 415);
  CHECK(fed(post("Content-Encoding: Identity\r\nContent-Length: 1\r\n", "x")).next()->body == "x");
}

TEST_CASE("100-continue is reported once, and only while the body is awaited") {
  request_parser parser = fed(post("Expect: 100-Continue\r\nContent-Length: 2\r\n", ""));
  CHECK(parser.take_expect_continue());
  CHECK_FALSE(parser.take_expect_continue());
  parser.feed("ab");
  CHECK(parser.next()->body == "ab");

  request_parser at_once = fed(post("Expect: 100-continue\r\nContent-Length: 2\r\n", "a"));
  CHECK_FALSE(at_once.take_expect_continue());
  request_parser empty = fed(post("Expect: 100-continue\r\nContent-Length: 0\r\n", ""));
  CHECK_FALSE(empty.take_expect_continue());
  CHECK(status_of(post("Expect: something\r\n", "")) == 417);
  // A body that will be refused is not asked for.
  request_parser refused = fed(post("Expect: 100-continue\r\nContent-Length: 999999999\r\n", ""));
  CHECK_FALSE(refused.take_expect_continue());
  CHECK(refused.error()->status == 413);
}

TEST_CASE("requests before a malformed one are kept, and input after it is ignored") {
  request_parser parser = fed(get + get + "BROKEN\r\n" + get);
  parser.feed(get);
  REQUIRE(parser.error());
  CHECK(parser.next());
  CHECK(parser.next());
  CHECK_FALSE(parser.next());
  CHECK(parser.buffered_bytes() == 0);
}

TEST_CASE("pipelined requests wait unparsed behind a full queue and none is lost") {
  request_parser parser({.max_queued_requests = 4});
  std::string many;
  for (int i = 0; i < 100; ++i) many += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\n\r\n";
  parser.feed(many);
  CHECK(parser.full());
  CHECK(parser.buffered_bytes() > 0);
  for (int i = 0; i < 100; ++i) CHECK(parser.next()->path == "/" + std::to_string(i));
  CHECK_FALSE(parser.next());
  CHECK_FALSE(parser.full());
  CHECK(parser.buffered_bytes() == 0);
}

TEST_CASE("a peer that never waits for answers is cut off, and its bytes are let go") {
  request_parser parser({.max_body_bytes = 1024, .max_queued_requests = 2});
  for (int i = 0; i < 10'000 && !parser.error(); ++i) parser.feed(get);
  REQUIRE(parser.error());
  CHECK(parser.error()->status == 400);
  CHECK(parser.buffered_bytes() == 0);
}

TEST_CASE("buffered_bytes tells what a partial request holds, and never exceeds what was sent") {
  request_parser parser{parser_limits{}};
  const std::string head = post("Content-Length: 1000\r\n", "");
  parser.feed(head.substr(0, 10));
  CHECK(parser.buffered_bytes() == 10);
  parser.feed(head.substr(10));
  CHECK(parser.buffered_bytes() == head.size());
  parser.feed(std::string(999, 'x'));
  CHECK(parser.buffered_bytes() == head.size() + 999);
  parser.feed("x");
  CHECK(parser.buffered_bytes() == 0);
}

TEST_CASE("a client that drips a head or a body without an end holds a bounded number of bytes") {
  const parser_limits limits{.max_header_bytes = 1024, .max_body_bytes = 2048};
  std::size_t most = 0;
  for (const std::string_view start : {"GET /", "GET / HTTP/1.1\r\nX: ",
                                       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1"}) {
    request_parser parser(limits);
    parser.feed(start);
    for (int i = 0; i < 10'000; ++i) {
      parser.feed("1");
      most = std::max(most, parser.buffered_bytes());
    }
    CHECK(parser.error());
  }
  CHECK(most <= 1024);
}

namespace {

std::string random_piece(random_source& random) {
  static const std::string pieces[] = {
      get,
      post("Content-Length: 5\r\n", "hello"),
      post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\nT: u\r\n\r\n"),
      post("Expect: 100-continue\r\nContent-Length: 3\r\n", "xyz"),
      "\r\n",
      "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
      post("Content-Length: 40\r\n", "0123456789012345678901234567890123456789"),
  };
  return pieces[random.below(std::size(pieces))];
}

std::string random_stream(random_source& random) {
  static const std::string_view alphabet =
      "\r\n :%/GETHPOS10.5;,-\x01\xff"
      "aX";
  std::string text;
  for (std::uint64_t i = 0; i <= random.below(6); ++i) text += random_piece(random);
  for (std::uint64_t faults = random.below(3); faults > 0 && !text.empty(); --faults) {
    const std::size_t at = random.below(text.size());
    const char c = alphabet[random.below(alphabet.size())];
    switch (random.below(3)) {
      case 0:
        text[at] = c;
        break;
      case 1:
        text.insert(text.begin() + static_cast<std::ptrdiff_t>(at), c);
        break;
      default:
        text.erase(at, 1 + random.below(4));
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("how the bytes are cut does not change what is parsed") {
  constexpr std::uint64_t seed = 20240607;
  MESSAGE("seed " << seed);
  random_source random(seed);
  const parser_limits limits{.max_header_bytes = 100, .max_body_bytes = 30, .max_header_count = 3};
  int errors = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_stream(random);
    CAPTURE(round);
    CAPTURE(text);
    request_parser whole(limits);
    request_parser dripped(limits);
    request_parser cut(limits);
    whole.feed(text);
    for (const char c : text) dripped.feed({&c, 1});
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = std::min<std::size_t>(1 + random.below(9), text.size() - at);
      cut.feed(std::string_view(text).substr(at, size));
      at += size;
    }
    CHECK(whole.buffered_bytes() <= text.size());
    const std::string expected = seen(whole);
    errors += whole.error() ? 1 : 0;
    CHECK(seen(dripped) == expected);
    CHECK(seen(cut) == expected);
    CHECK(dripped.buffered_bytes() == whole.buffered_bytes());
  }
  // The random streams must reach both outcomes often, or the comparison says little.
  CHECK(errors > 300);
  CHECK(errors < 2700);
}
