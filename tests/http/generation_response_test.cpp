#include "http/generation_response.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/random.hpp"

using namespace yolk::http;
using nlohmann::json;

namespace {

const response_identity chat = {endpoint::chat, "chatcmpl-1", 1700000000, "m", "fp_1"};
const response_identity completion = {endpoint::completions, "cmpl-1", 1700000000, "m", "fp_1"};

/// The documents of a run of SSE events; every event must be one "data:" line and a blank line.
std::vector<json> events(const std::string& text) {
  std::vector<json> documents;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = rest.find("\n\n");
    REQUIRE(end != std::string_view::npos);
    const std::string_view event = rest.substr(0, end);
    REQUIRE(event.starts_with("data: "));
    REQUIRE(event.find('\n') == std::string_view::npos);
    documents.push_back(json::parse(event.substr(6)));
    rest.remove_prefix(end + 2);
  }
  return documents;
}

json expected_chunk(const json& choices) {
  return {{"id", "chatcmpl-1"}, {"object", "chat.completion.chunk"}, {"created", 1700000000},
          {"model", "m"},       {"system_fingerprint", "fp_1"},      {"choices", choices}};
}

}  // namespace

TEST_CASE("a chat completion has OpenAI's shape") {
  const response_choice choice = {.index = 0, .text = "Hi", .finish_reason = "stop", .stop_reason = "END"};
  const json body = json::parse(
      format_response_body(chat, {choice, {.index = 1, .text = "", .finish_reason = "length"}}, {10, 2, 8}));
  CHECK(body == json::parse(R"({
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "m", "system_fingerprint": "fp_1",
    "choices": [
      {"index": 0, "message": {"role": "assistant", "content": "Hi", "refusal": null}, "logprobs": null, "finish_reason": "stop", "stop_reason": "END"},
      {"index": 1, "message": {"role": "assistant", "content": "", "refusal": null}, "logprobs": null, "finish_reason": "length", "stop_reason": null}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 8}}})"));
}

TEST_CASE("a text completion has OpenAI's shape") {
  const json body =
      json::parse(format_response_body(completion, {{.text = "x", .finish_reason = "length"}}, {1, 1, 0}));
  CHECK(body["object"] == "text_completion");
  CHECK(
      body["choices"] ==
      json::parse(R"([{"index":0,"text":"x","logprobs":null,"finish_reason":"length","stop_reason":null}])"));
  CHECK(body["usage"]["prompt_tokens_details"]["cached_tokens"] == 0);
}

TEST_CASE("a chat stream is role, deltas, finish, usage, done") {
  const auto role = events(sse_role(chat, 1));
  REQUIRE(role.size() == 1);
  CHECK(
      role[0] ==
      expected_chunk(json::parse(
          R"([{"index":1,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}])")));

  const auto delta = events(sse_delta(chat, {.index = 1, .text = "Hi"}, std::nullopt));
  REQUIRE(delta.size() == 1);
  CHECK(
      delta[0] ==
      expected_chunk(json::parse(
          R"([{"index":1,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null,"stop_reason":null}])")));

  const auto last = events(
      sse_delta(chat, {.index = 1, .text = "!", .finish_reason = "stop", .stop_reason = "E"}, std::nullopt));
  REQUIRE(last.size() == 2);
  CHECK(last[0]["choices"][0]["delta"]["content"] == "!");
  CHECK(last[0]["choices"][0]["finish_reason"].is_null());
  CHECK(last[1]["choices"] ==
        json::parse(R"([{"index":1,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":"E"}])"));

  const auto usage_chunk = events(sse_usage(chat, {3, 4, 2}));
  REQUIRE(usage_chunk.size() == 1);
  CHECK(usage_chunk[0]["choices"] == json::array());
  CHECK(usage_chunk[0]["object"] == "chat.completion.chunk");
  CHECK(usage_chunk[0]["usage"]["total_tokens"] == 7);
  CHECK(usage_chunk[0]["usage"]["prompt_tokens_details"]["cached_tokens"] == 2);
  CHECK(sse_done() == "data: [DONE]\n\n");
  CHECK(sse_keepalive().starts_with(":"));
  CHECK(sse_keepalive().ends_with("\n\n"));
}

TEST_CASE("a completions stream has no role and says text_completion") {
  CHECK(sse_role(completion, 0).empty());
  const auto chunks = events(sse_delta(completion, {.text = "a", .finish_reason = "length"}, std::nullopt));
  REQUIRE(chunks.size() == 2);
  CHECK(chunks[0]["object"] == "text_completion");
  CHECK(chunks[0]["choices"][0]["text"] == "a");
  CHECK(chunks[1]["choices"][0]["text"] == "");
  CHECK(chunks[1]["choices"][0]["finish_reason"] == "length");
}

TEST_CASE("no empty chunk is sent while text is held back") {
  CHECK(sse_delta(chat, {}, std::nullopt).empty());
  CHECK(sse_delta(completion, {.has_logprobs = true}, std::nullopt).empty());
}

TEST_CASE("usage is null in chunks when it was asked for, and counts when it runs along") {
  response_identity asked = chat;
  asked.stream_usage = true;
  CHECK(events(sse_delta(asked, {.text = "a"}, std::nullopt))[0]["usage"].is_null());
  CHECK(events(sse_role(asked, 0))[0].contains("usage"));
  CHECK_FALSE(events(sse_delta(chat, {.text = "a"}, std::nullopt))[0].contains("usage"));
  CHECK(events(sse_delta(asked, {.text = "a"}, usage{5, 1, 0}))[0]["usage"]["completion_tokens"] == 1);
}

TEST_CASE("chat logprobs list tokens with their exact bytes") {
  response_choice choice = {.text = "\xC3\xA9", .finish_reason = "stop", .has_logprobs = true};
  choice.logprobs = {{"\xC3", -0.5f, {{"\xC3", -0.5f}, {"a", -1.0f}}}, {"\xA9", -0.25f, {}}};
  const json content =
      json::parse(format_response_body(chat, {choice}, {}))["choices"][0]["logprobs"]["content"];
  CHECK(content[0]["token"] == "\xEF\xBF\xBD");
  CHECK(content[0]["bytes"] == json::array({0xC3}));
  CHECK(content[0]["logprob"] == -0.5);
  CHECK(content[0]["top_logprobs"].size() == 2);
  CHECK(content[0]["top_logprobs"][1] == json::parse(R"({"token":"a","logprob":-1.0,"bytes":[97]})"));
  CHECK(content[1]["top_logprobs"] == json::array());
  const auto chunk = events(sse_delta(chat, choice, std::nullopt));
  CHECK(chunk[0]["choices"][0]["logprobs"]["content"].size() == 2);
  CHECK(chunk[1]["choices"][0]["logprobs"].is_null());
}

TEST_CASE("completions logprobs are four parallel lists, and offsets count characters") {
  response_choice choice = {
      .text = "a\xC3\xA9z", .finish_reason = "stop", .has_logprobs = true, .text_offset = 10};
  choice.logprobs = {{"a", -1.0f, {{"b", -2.0f}}},
                     {"\xC3", -1.0f, {{"\xC4", -3.0f}, {"\xC3", -1.0f}}},
                     {"\xA9z", -1.0f, {}}};
  const json logprobs = json::parse(format_response_body(completion, {choice}, {}))["choices"][0]["logprobs"];
  CHECK(logprobs == json::parse(R"({
    "tokens": ["a", "bytes:\\xc3", "bytes:\\xa9\\x7a"], "token_logprobs": [-1.0, -1.0, -1.0],
    "top_logprobs": [{"a": -1.0, "b": -2.0}, {"bytes:\\xc3": -1.0, "bytes:\\xc4": -3.0}, {"bytes:\\xa9\\x7a": -1.0}],
    "text_offset": [10, 11, 12]})"));
}

TEST_CASE("a log probability that JSON cannot hold becomes the floor") {
  response_choice choice = {.text = "a", .finish_reason = "stop", .has_logprobs = true};
  const float infinity = std::numeric_limits<float>::infinity();
  choice.logprobs = {{"a", -infinity, {{"a", std::nanf("")}, {"b", -1e30f}}}};
  for (const auto& identity : {chat, completion}) {
    const std::string text = format_response_body(identity, {choice}, {});
    CHECK(json::accept(text));
    CHECK(text.find("-9999") != std::string::npos);
    CHECK(text.find("inf") == std::string::npos);
    CHECK(text.find("null,\"bytes") == std::string::npos);
  }
}

TEST_CASE("strings that are no UTF-8 never break JSON") {
  CHECK(quote("a\"\\\n\t\x01\x7f") == "\"a\\\"\\\\\\n\\t\\u0001\x7f\"");
  CHECK(quote("h\xC3\xA9llo \xF0\x9F\x98\x80") == "\"h\xC3\xA9llo \xF0\x9F\x98\x80\"");
  const std::string u = "\xEF\xBF\xBD";
  CHECK(quote("\xC3") == '"' + u + '"');
  CHECK(quote("\xE2\x82x") == '"' + u + "x\"");           // one for the maximal part of a broken character
  CHECK(quote("\xC0\xAF") == '"' + u + u + '"');          // overlong
  CHECK(quote("\xED\xA0\x80") == '"' + u + u + u + '"');  // surrogate
  CHECK(quote("\xF5\x80") == '"' + u + u + '"');
  CHECK(quote("\xF4\x90\x80\x80") == '"' + u + u + u + u + '"');  // above U+10FFFF
  CHECK(quote(std::string_view("\0", 1)) == "\"\\u0000\"");

  constexpr std::uint64_t seed = 77;
  MESSAGE("seed " << seed);
  yolk::core::random_source random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (std::uint64_t i = random.below(8); i > 0; --i)
      bytes += static_cast<char>(random.below(3) == 0 ? random.below(128) : 128 + random.below(128));
    CAPTURE(round);
    const json parsed = json::parse(quote(bytes), nullptr, false);  // strict about UTF-8
    REQUIRE(parsed.is_string());
    // Well-formed text comes back as it was.
    if (json(bytes).dump(-1, ' ', false, json::error_handler_t::ignore) ==
        json(bytes).dump(-1, ' ', false, json::error_handler_t::replace)) {
      REQUIRE(parsed.get<std::string>() == bytes);
    }
  }
}

TEST_CASE("an error has OpenAI's shape, with nulls for what is empty") {
  CHECK(json::parse(to_json(api_error{.status = 404, .message = "no \"x\""})) ==
        json::parse(
            R"({"error":{"message":"no \"x\"","type":"invalid_request_error","param":null,"code":null}})"));
  const api_error full = {400, "m", "t", "p", "context_length_exceeded", 3};
  CHECK(json::parse(to_json(full)) ==
        json::parse(R"({"error":{"message":"m","type":"t","param":"p","code":"context_length_exceeded"}})"));
  CHECK(events(sse_error(full))[0]["error"]["code"] == "context_length_exceeded");
}

TEST_CASE("models, tokenize and detokenize have vLLM's shape") {
  const model_card card = {"m", 5, 2048};
  const json one = json::parse(
      R"({"id":"m","object":"model","created":5,"owned_by":"yolk","root":"m","parent":null,"max_model_len":2048})");
  CHECK(json::parse(format_model(card)) == one);
  CHECK(json::parse(format_models({card, card})) == json{{"object", "list"}, {"data", {one, one}}});
  CHECK(json::parse(format_models({})) == json::parse(R"({"object":"list","data":[]})"));
  CHECK(json::parse(format_tokenize({1, 4294967295u}, 9)) ==
        json::parse(R"({"count":2,"max_model_len":9,"tokens":[1,4294967295]})"));
  CHECK(json::parse(format_detokenize("a\n")) == json::parse(R"({"prompt":"a\n"})"));
}
