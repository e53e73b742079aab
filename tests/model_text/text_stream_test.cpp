#include "model/text_stream.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/model_text/small_tokenizers.hpp"

using namespace yolk;
using namespace yolk::model;

namespace {

std::shared_ptr<const tokenizer> byte_tokens() {
  auto loaded = tokenizer::parse(test::byte_level_file({"stop", " the", "ab", "abc"}).json(), "", "small");
  if (!loaded) FAIL(loaded.error().message);
  return *loaded;
}

struct outcome {
  std::string text;
  std::string stop;
  std::vector<std::string> chunks;
  bool stopped = false;
};

outcome stream(const std::shared_ptr<const tokenizer>& tokens, const std::vector<core::token_id>& ids,
               text_stream_options options) {
  text_stream stream(tokens, std::move(options));
  outcome result;
  for (const core::token_id id : ids) {
    result.chunks.push_back(stream.push(id));
    if (stream.stopped()) break;
  }
  result.chunks.push_back(stream.finish());
  for (const std::string& chunk : result.chunks) result.text += chunk;
  result.stopped = stream.stopped();
  result.stop = stream.stop_string();
  return result;
}

/// What should come out, by looking at the whole text: cut where the first stop string is complete.
outcome expected(const std::string& whole, const std::vector<std::string>& stops, bool include) {
  outcome result;
  for (std::size_t end = 1; end <= whole.size(); ++end) {
    for (const std::string& stop : stops) {
      const bool here = !stop.empty() && std::string_view(whole).substr(0, end).ends_with(stop);
      if (here && stop.size() > result.stop.size()) result.stop = stop;
    }
    if (!result.stop.empty()) {
      result.text = whole.substr(0, include ? end : end - result.stop.size());
      result.stopped = true;
      return result;
    }
  }
  result.text = whole;
  return result;
}

std::vector<core::token_id> bytes(std::string_view text) {
  std::vector<core::token_id> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

}  // namespace

TEST_CASE("a character of several tokens is sent when it is whole") {
  const auto out = stream(byte_tokens(), bytes("a\u20ACb"), {});
  CHECK(out.chunks == std::vector<std::string>{"a", "", "", "\u20AC", "b", ""});
}

TEST_CASE("an unfinished character at the end becomes a replacement character") {
  const auto out = stream(byte_tokens(), bytes("a\xE2\x82"), {});
  CHECK(out.chunks == std::vector<std::string>{"a", "", "", "\uFFFD"});
}

TEST_CASE("a stop string over several tokens is met and no part of it is sent") {
  const auto out = stream(byte_tokens(), bytes("one STOP two"), {.stop = {"STOP"}});
  CHECK(out.text == "one ");
  CHECK(out.stopped);
  CHECK(out.stop == "STOP");
}

TEST_CASE("a stop string inside of one token ends the text there") {
  const auto tokens = byte_tokens();
  const auto the = tokens->find("\u0120the");
  REQUIRE(the);
  const auto out = stream(tokens, {'x', *the}, {.stop = {"h"}});
  CHECK(out.text == "x t");
  CHECK(stream(tokens, {'x', *the}, {.stop = {"h"}, .include_stop = true}).text == "x th");
}

TEST_CASE("only what may become a stop string is held back") {
  const auto out = stream(byte_tokens(), bytes("STSTOx"), {.stop = {"STOP"}});
  CHECK(out.chunks == std::vector<std::string>{"", "", "ST", "", "", "STOx", ""});
}

TEST_CASE("what was held back is sent at the end") {
  CHECK(stream(byte_tokens(), bytes("end ST"), {.stop = {"STOP"}}).text == "end ST");
}

TEST_CASE("special tokens are left out unless they are asked for") {
  const auto tokens = byte_tokens();
  const auto end = tokens->find("<|im_end|>");
  REQUIRE(end);
  CHECK(stream(tokens, {'a', *end, 'b'}, {}).text == "ab");
  CHECK(stream(tokens, {'a', *end, 'b'}, {.skip_special_tokens = false}).text == "a<|im_end|>b");
  CHECK(stream(tokens, {'a', *end, 'b'}, {.stop = {"|im"}, .skip_special_tokens = false}).text == "a<");
}

TEST_CASE("the space that SentencePiece puts before a text is dropped once") {
  auto loaded = tokenizer::parse(test::metaspace_file({"▁", "a", "b"}, {{"▁", "a"}}).json(), "", "small");
  if (!loaded) FAIL(loaded.error().message);
  const auto ids = (*loaded)->encode("a a b", {});
  CHECK(stream(*loaded, ids, {}).text == "a a b");
}

TEST_CASE(
    "streamed text equals the decoded whole cut at the first stop string, and sends nothing of that string") {
  const auto tokens = byte_tokens();
  const unsigned seed = std::random_device{}();
  MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  // Few letters, so that starts of stop strings overlap each other and themselves; bytes that are no UTF-8
  // too.
  const std::vector<std::string> letters = {"a", "b", "\u20AC", "\U0001F600", "\xE2", "\x82", "\xFF", "c"};
  std::vector<core::token_id> words;
  for (const char* word : {"ab", "abc", "st", "sto", "stop"}) words.push_back(*tokens->find(word));
  std::size_t stopped = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<core::token_id> ids;
    for (std::size_t i = 0, count = below(40); i < count; ++i) {
      if (below(4) == 0) {
        ids.push_back(words[below(words.size())]);
      } else {
        for (const core::token_id id : bytes(letters[below(letters.size())])) ids.push_back(id);
      }
    }
    std::vector<std::string> stops;
    for (std::size_t i = 0, count = below(4); i < count; ++i) {
      std::string stop;
      for (std::size_t k = 0, length = below(5); k < length; ++k) stop += letters[below(4)];
      stops.push_back(stop);
    }
    const bool include = below(2) == 0;
    const std::string whole = tokens->decode(ids, true);
    CAPTURE(round);
    CAPTURE(whole);
    const outcome want = expected(whole, stops, include);
    const outcome got = stream(tokens, ids, {.stop = stops, .include_stop = include});
    CHECK(got.text == want.text);
    CHECK(got.stopped == want.stopped);
    CHECK(got.stop == want.stop);
    stopped += want.stopped ? 1 : 0;
    for (const std::string& chunk : got.chunks)
      CHECK(tokens->decode(tokens->encode(chunk, {.add_special_tokens = false}), true) == chunk);
  }
  CHECK(stopped > 300);
}
