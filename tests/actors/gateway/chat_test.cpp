#include "cli/chat.hpp"

#include <doctest/doctest.h>

#include <future>
#include <sstream>
#include <string>

#include "cli/chat_event.hpp"
#include "cli/format.hpp"
#include "tests/actors/gateway/gateway_fixture.hpp"

// `yolk chat`, talking to a gateway.
using namespace yolk;
using namespace yolk::tests;

namespace {

/// A chat in a thread of its own, from a pipe's worth of lines.
class running_chat {
 public:
  running_chat(cli::chat_options options, const std::string& lines)
      : options_(std::move(options)), in_(lines), status_(std::async(std::launch::async, [this] {
          return cli::run_chat(options_, {in_, out_, notes_, false});
        })) {}
  int wait() { return status_.get(); }
  std::string out() const { return out_.str(); }
  std::string notes() const { return notes_.str(); }

 private:
  cli::chat_options options_;
  std::istringstream in_;
  std::ostringstream out_, notes_;
  std::future<int> status_;
};

cli::chat_options options_for(const gateway_fixture& gateway) {
  return {.url = "http://127.0.0.1:" + std::to_string(gateway.port()) + "/"};
}

void answer(gateway_fixture& gateway, std::string_view expected_prompt, std::string_view text) {
  const seen_request request = gateway.next_request(peer::admission);
  CHECK(std::string(request.tokens.begin(), request.tokens.end()) == expected_prompt);
  gateway.send_tokens(request, {.tokens = ids_of(text), .end = finish::length, .cached_tokens = 4});
}

}  // namespace

TEST_CASE("a chat from a pipe keeps its history, and forgets it when told to") {
  gateway_fixture gateway;
  auto options = options_for(gateway);
  options.stats = true;
  running_chat chat(options, "one\n\n/reset\ntwo\r\nthree\n/system S\nfour\n/quit\nnever\n");
  answer(gateway, "user:one\nassistant:", "1\n\"x\"");
  answer(gateway, "user:two\nassistant:", "2");
  answer(gateway, "user:two\nassistant:2\nuser:three\nassistant:", "3");
  answer(gateway, "system:S\nuser:four\nassistant:", "\xE2\x82\xAC");
  CHECK(chat.wait() == 0);
  CHECK(chat.out() == "1\n\"x\"\n2\n3\n\xE2\x82\xAC\n");
  CHECK(chat.notes().find("4 of 19 prompt tokens cached") != std::string::npos);
  CHECK(chat.notes().find("5 tokens]") != std::string::npos);
  CHECK(chat.notes().find("tokens/s") == std::string::npos);  // what comes at once has no rate
}

TEST_CASE("a chat tells what went wrong, and goes on") {
  gateway_fixture_options fixture_options;
  fixture_options.gateway.api_keys = {{"k", "t"}};
  gateway_fixture gateway(fixture_options);
  auto options = options_for(gateway);
  {
    running_chat chat(options, "one\n");
    CHECK(chat.wait() == 1);
    CHECK(chat.notes().find("error: HTTP 401: Incorrect API key") != std::string::npos);
  }
  options.api_key = "k";
  options.max_tokens = 7;
  options.temperature = 0.5;
  options.model = "fake";
  running_chat chat(options, "one\ntwo\n");
  const seen_request refused = gateway.next_request(peer::admission);
  CHECK(refused.sampling.max_tokens == 7);
  CHECK(refused.sampling.temperature == 0.5f);
  gateway.fail(refused, failure::refused, "later, please");
  answer(gateway, "user:two\nassistant:", "2");
  CHECK(chat.wait() == 1);
  CHECK(chat.out() == "2\n");
  CHECK(chat.notes().find("error: HTTP 429: later, please") != std::string::npos);
}

TEST_CASE("a chat without a server, or with a bad URL, says so") {
  std::uint16_t port = 0;
  {
    gateway_fixture gone;
    port = gone.port();
  }
  running_chat chat({.url = "http://127.0.0.1:" + std::to_string(port)}, "one\n");
  CHECK(chat.wait() == 1);
  CHECK(chat.notes().find("cannot connect to http://127.0.0.1") != std::string::npos);
  running_chat bad({.url = "ftp://x"}, "one\n");
  CHECK(bad.wait() == 2);
}

TEST_CASE("events are read whatever their order, escapes included; what is no JSON is empty") {
  using cli::read_chat_event;
  CHECK(
      read_chat_event(R"({"choices":[{"delta":{"content":"a\n\"\u20ac\ud83d\ude00"},"index":0}]})").content ==
      "a\n\"\xE2\x82\xAC\xF0\x9F\x98\x80");
  const auto usage = read_chat_event(
      R"({"usage":{"prompt_tokens_details":{"cached_tokens":3},"completion_tokens":2,"prompt_tokens":9},"choices":[]})");
  CHECK(usage.has_usage);
  CHECK(usage.cached_tokens == 3);
  CHECK(usage.prompt_tokens == 9);
  CHECK(read_chat_event(R"({"error":{"message":"no","code":null}})").error == "no");
  CHECK(
      read_chat_event(R"({"choices":[{"delta":{"content":"second"}},{"delta":{"content":"x"}}]})").content ==
      "second");
  for (const char* text :
       {"", "{", "{\"a\":", "[[[[", "{\"choices\":[{\"delta\":{\"content\":\"\\u12", "nonsense"})
    CHECK(read_chat_event(text).content.empty());
  for (const char* text :
       {"", "{", "{\"a\":", "nonsense", "{\"a\":1}x", "{\"a\":truth}", "{\"a\":-}", "{\"a\":1.2.3}"}) {
    CAPTURE(text);
    CHECK_FALSE(read_chat_event(text).is_json);
  }
  for (const char* text : {"{}", " {\"a\":[-1.5e3,true,false,null,\"\"]} ", "{\"a\":{\"b\":0}}"}) {
    CAPTURE(text);
    CHECK(read_chat_event(text).is_json);
  }
  CHECK(read_chat_event(std::string(100'000, '[')).content.empty());
}

TEST_CASE("what steers a terminal is written out, as cat -v does, and other text is left alone") {
  CHECK(cli::visible("a\n\tb") == "a\n\tb");
  CHECK(cli::visible("\x1b[2J\x07\r\x7f") == "^[[2J^G^M^?");
  CHECK(cli::visible(std::string(1, '\0')) == "^@");
  CHECK(cli::visible("\xC2\x9B"
                     "2J\xC2\x80") == "M-^[2JM-^@");
  CHECK(cli::visible("\xC2\xA9 \xE2\x82\xAC \xC3\x9B\xC2") == "\xC2\xA9 \xE2\x82\xAC \xC3\x9B\xC2");
}

TEST_CASE("a chat that cannot write says so and ends") {
  gateway_fixture gateway;
  cli::chat_options options = options_for(gateway);
  std::istringstream in("one\ntwo\n");
  std::ostream closed(nullptr);
  std::ostringstream notes;
  auto status = std::async(std::launch::async, [&] {
    return cli::run_chat(options, {in, closed, notes, false});
  });
  answer(gateway, "user:one\nassistant:", "1");
  CHECK(status.get() == 1);
  CHECK(notes.str().find("error: the answer cannot be written") != std::string::npos);
  CHECK(gateway.nothing_requested(peer::admission));
}
