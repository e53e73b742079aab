// Requests from arbitrary bytes: whole and cut into pieces they must give the same, and no more is held than
// was sent.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/message_parser.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace yolk::http;

std::string drain(request_parser& parser) {
  std::string out;
  while (auto message = parser.next()) {
    out += message->method + ' ' + message->path + (message->keep_alive ? " k " : " c ");
    for (const auto& [name, value] : message->headers) out += name + ':' + value + ';';
    for (const auto& [name, value] : message->query) out += name + '=' + value + '&';
    out += message->body + '\n';
  }
  if (parser.error()) out += parser.error()->message;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const parser_limits limits = {.max_header_bytes = 512, .max_body_bytes = 256, .max_header_count = 8};
  request_parser whole(limits);
  whole.feed(text);
  require(whole.buffered_bytes() <= size, "no more is held than was sent");
  request_parser cut(limits);
  std::size_t at = 0;
  while (at < size) {
    const std::size_t step = 1 + data[at] % 7;
    cut.feed(text.substr(at, step));
    at += step;
  }
  require(drain(whole) == drain(cut), "cuts change nothing");

  response_parser response;
  response.feed(text);
  response.finish();
  require(response.complete() != response.failed(), "a closed connection is complete or failed");
  return 0;
}
