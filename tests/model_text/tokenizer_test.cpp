#include "model/tokenizer.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/model_text/small_tokenizers.hpp"

using namespace yolk;
using namespace yolk::model;

namespace {

using ids = std::vector<core::token_id>;

std::shared_ptr<const tokenizer> parsed(const std::string& json, const std::string& config = "") {
  auto loaded = tokenizer::parse(json, config, "small");
  if (!loaded) FAIL(loaded.error().message);
  return *loaded;
}

std::vector<std::string> pieces(const tokenizer& tokens, std::string_view text,
                                const encode_options& options = {}) {
  std::vector<std::string> out;
  for (const core::token_id id : tokens.encode(text, options)) out.push_back(tokens.piece(id, false));
  return out;
}

using texts = std::vector<std::string>;

/// A byte-level tokenizer with the given pre-tokenizer and no merges but those of whole words.
std::shared_ptr<const tokenizer> with_pre_tokenizer(const std::string& stages,
                                                    const std::vector<std::string>& words,
                                                    const std::string& normalizer = "null") {
  test::small_file file = test::byte_level_file(words);
  file.model_fields = R"(,"ignore_merges":true)";
  file.rest = test::joined({R"(,"normalizer":)", normalizer, R"(,"pre_tokenizer":)", stages,
                            R"(,"decoder":{"type":"ByteLevel"})"});
  return parsed(file.json());
}

std::string split(const std::string& pattern, const std::string& behavior, const std::string& more = "") {
  return test::joined({R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":)", pattern,
                       R"(,"behavior":")", behavior, R"(")", more,
                       R"(},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})"});
}

constexpr const char* llama3_pattern =
    R"({"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"})";

}  // namespace

TEST_CASE("merges go by rank, not from the left") {
  test::small_file file = test::byte_level_file({});
  file.vocabulary.insert(file.vocabulary.end(), {"bc", "ab", "abc"});
  file.merges = {{"b", "c"}, {"a", "b"}, {"a", "bc"}};
  file.added.clear();
  const auto tokens = parsed(file.json());
  CHECK(pieces(*tokens, "abab") == texts{"ab", "ab"});
  CHECK(pieces(*tokens, "abc") == texts{"abc"});
  CHECK(pieces(*tokens, "aabcc") == texts{"a", "abc", "c"});
}

TEST_CASE("a word that is a token but that no merges lead to is taken whole only with ignore_merges") {
  test::small_file file = test::byte_level_file({});
  file.vocabulary.push_back("xyz");
  file.added.clear();
  CHECK(pieces(*parsed(file.json()), "xyz") == texts{"x", "y", "z"});
  file.model_fields = R"(,"ignore_merges":true)";
  CHECK(pieces(*parsed(file.json()), "xyz") == texts{"xyz"});
}

TEST_CASE("text is cut into words as Llama 3's expression says, in all scripts") {
  const std::vector<std::string> words = {"Don",           "'T",    " stop", "123", "45",  " \u4F60\u597D",
                                          "\u00E9t\u00E9", "...\n", "  ",    " a",  "\n\n"};
  const auto tokens = with_pre_tokenizer(split(llama3_pattern, "Isolated"), words);
  CHECK(pieces(*tokens, "Don'T stop") == texts{"Don", "'T", " stop"});
  CHECK(pieces(*tokens, "12345") == texts{"123", "45"});
  CHECK(pieces(*tokens, "\u00E9t\u00E9 \u4F60\u597D...\n") ==
        texts{"\u00E9t\u00E9", " \u4F60\u597D", "...\n"});
  CHECK(pieces(*tokens, "   a\n\n") == texts{"  ", " a", "\n\n"});
}

TEST_CASE("\\s is property White_Space: with U+0085, without U+FEFF and U+180E") {
  const auto tokens = with_pre_tokenizer(split(R"({"Regex":"\\s+"})", "Removed"), {"a", "b"});
  CHECK(pieces(*tokens, "a\u0085\u2003 b") == texts{"a", "b"});
  CHECK(tokens->encode("a\uFEFFb", {}).size() == 5);
  CHECK(tokens->encode("a\u180Eb", {}).size() == 5);
}

TEST_CASE("every split behavior gives the words that the format defines") {
  const std::vector<std::string> words = {"ab", "-", "--", "cd", "ab-", "-cd", "--cd"};
  const auto cut = [&](const std::string& behavior, const std::string& more = "") {
    return pieces(*with_pre_tokenizer(split(R"({"String":"-"})", behavior, more), words), "ab--cd");
  };
  CHECK(cut("Isolated") == texts{"ab", "-", "-", "cd"});
  CHECK(cut("Removed") == texts{"ab", "cd"});
  CHECK(cut("Removed", R"(,"invert":true)") == texts{"-", "-"});
  CHECK(cut("Contiguous") == texts{"ab", "--", "cd"});
  CHECK(cut("MergedWithPrevious") == texts{"ab-", "-", "cd"});
  CHECK(cut("MergedWithNext") == texts{"ab", "-", "-cd"});
}

TEST_CASE("digits are cut one by one or as runs, and a prefix space is put where it is asked for") {
  const auto one = with_pre_tokenizer(
      R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})",
      {"ab", "12"});
  CHECK(pieces(*one, "ab12") == texts{"ab", "1", "2"});
  const auto runs = with_pre_tokenizer(
      R"({"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})",
      {"ab", "12"});
  CHECK(pieces(*runs, "ab12") == texts{"ab", "12"});
  const auto prefixed = with_pre_tokenizer(R"({"type":"ByteLevel","add_prefix_space":true})", {" ab", " cd"});
  CHECK(pieces(*prefixed, "ab cd") == texts{" ab", " cd"});
  CHECK(pieces(*prefixed, " ab") == texts{" ab"});
}

TEST_CASE("NFC is applied before anything but added tokens") {
  const auto tokens = with_pre_tokenizer(R"({"type":"ByteLevel","add_prefix_space":false})", {"caf\u00E9"},
                                         R"({"type":"NFC"})");
  CHECK(pieces(*tokens, "cafe\u0301") == texts{"caf\u00E9"});
}

TEST_CASE("SentencePiece style: a leading space, fallback bytes, and the same text back") {
  const auto tokens = parsed(test::metaspace_file({"▁", "h", "i", "y"}, {{"h", "i"}, {"▁", "hi"}}).json(),
                             R"({"bos_token":"<s>","eos_token":{"content":"</s>"}})");
  CHECK(tokens->encode("hi hi", {}).size() == 3);
  CHECK(tokens->encode("hi hi", {}).front() == 1);
  CHECK(pieces(*tokens, "hi\n", {.add_special_tokens = false}) == texts{" hi", "\n"});
  CHECK(tokens->decode(tokens->encode("hi hi", {}), true) == "hi hi");
  CHECK(tokens->decode(tokens->encode("hi hi", {}), false) == "<s> hi hi");
  CHECK(tokens->decode(tokens->encode("\U0001F600 y", {}), true) == "\U0001F600 y");
  CHECK(tokens->bos() == 1);
  CHECK(tokens->eos() == 2);
  CHECK(tokens->is_special(1));
  CHECK_FALSE(tokens->is_special(10));
}

TEST_CASE("unknown characters without fallback are one unknown token a run") {
  test::small_file file;
  file.vocabulary = {"<unk>", "a"};
  file.model_fields = R"(,"unk_token":"<unk>","fuse_unk":true)";
  CHECK(parsed(file.json())->encode("xya z", {}) == ids{0, 1, 0});
  file.model_fields = R"(,"unk_token":"<unk>")";
  CHECK(parsed(file.json())->encode("xya", {}) == ids{0, 0, 1});
}

TEST_CASE("a Metaspace pre-tokenizer marks spaces, and the first word only where the scheme says so") {
  const auto make = [](const std::string& scheme) {
    test::small_file file = test::metaspace_file({"▁", "h", "i"}, {{"h", "i"}, {"▁", "hi"}});
    file.rest = test::joined(
        {R"(,"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":")", scheme,
         R"(","split":false},"decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":")", scheme,
         R"("})"});
    return parsed(file.json());
  };
  CHECK(pieces(*make("first"), "hi<s>hi hi") == texts{" hi", "<s>", "hi", " hi"});
  CHECK(pieces(*make("always"), "hi<s>hi hi") == texts{" hi", "<s>", " hi", " hi"});
  CHECK(pieces(*make("never"), "hi<s>hi hi") == texts{"hi", "<s>", "hi", " hi"});
}

TEST_CASE("special tokens in a text are those tokens only where the caller says so") {
  const auto tokens = parsed(test::byte_level_file({}).json());
  const auto end = tokens->find("<|im_end|>");
  REQUIRE(end);
  CHECK(tokens->encode("<|im_end|>", {}) == ids{*end});
  CHECK(tokens->encode("<|im_end|>", {.parse_special_tokens = false}).size() == 10);
  // The first is inside of a trusted range, the second reaches out of one, the third is in none.
  const std::vector<trusted_range> ranges = {{0, 10}, {10, 15}};
  const auto mixed = tokens->encode("<|im_end|><|im_end|><|im_end|>", {.trusted = ranges});
  CHECK(mixed.size() == 21);
  CHECK(mixed.front() == *end);
}

TEST_CASE("a special token cannot be put together by merges either") {
  test::small_file file = test::byte_level_file({"<e>"});
  const std::size_t id = file.vocabulary.size() - 1;
  file.added = test::joined({R"({"id":)", std::to_string(id), R"(,"content":"<e>","special":true})"});
  for (const char* fields : {"", R"(,"ignore_merges":true)"}) {
    file.model_fields = fields;
    file.rest = R"(,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
    const auto tokens = parsed(file.json());
    CHECK(pieces(*tokens, "<e>", {.parse_special_tokens = false}) == texts{"<e", ">"});
    CHECK(tokens->encode("<e>", {}) == ids{static_cast<core::token_id>(id)});
  }
}

TEST_CASE("the longest added token wins, and strip and word flags are obeyed") {
  test::small_file file = test::byte_level_file({});
  const auto added = [](int id, const char* text, const char* flags) {
    return test::joined({R"({"id":)", std::to_string(id), R"(,"content":")", text,
                         R"(","special":false,"normalized":false)", flags, "}"});
  };
  file.added = added(300, "<a>", "") + "," + added(301, "<a><b>", "") + "," +
               added(302, "word", R"(,"single_word":true)") + "," + added(303, "<l>", R"(,"lstrip":true)") +
               "," + added(304, "<r>", R"(,"rstrip":true)");
  const auto tokens = parsed(file.json());
  CHECK(tokens->encode("<a><b><a><a>", {}) == ids{301, 300, 300});
  CHECK(tokens->encode("word", {}) == ids{302});
  CHECK(tokens->encode("words", {}).size() == 5);
  CHECK(tokens->encode("sword", {}).size() == 5);
  CHECK(tokens->encode("a \n<l> b", {}) == ids{'a', 303, ' ', 'b'});
  CHECK(tokens->encode("a <r> \u3000b", {}) == ids{'a', ' ', 304, 'b'});
}

TEST_CASE("tokenizer_config.json decides about the tokens around a text") {
  const std::string json = test::metaspace_file({"▁", "a"}, {}).json();
  CHECK(parsed(json)->encode("a", {}).front() == 1);
  CHECK(parsed(json, R"({"bos_token":"<s>","add_bos_token":false})")->encode("a", {}).front() != 1);
  const auto both =
      parsed(json, R"({"bos_token":"<s>","eos_token":"</s>","add_bos_token":true,"add_eos_token":true})");
  CHECK(both->encode("a", {}).front() == 1);
  CHECK(both->encode("a", {}).back() == 2);
  CHECK(both->encode("a", {.add_special_tokens = false}).size() == 2);
}

TEST_CASE("the chat template is a string or the one called default") {
  const std::string json = test::byte_level_file({}).json();
  CHECK(parsed(json)->chat_template_text().empty());
  CHECK(parsed(json, R"({"chat_template":"x"})")->chat_template_text() == "x");
  CHECK(parsed(json,
               R"({"chat_template":[{"name":"tool_use","template":"t"},{"name":"default","template":"d"}]})")
            ->chat_template_text() == "d");
}

TEST_CASE("tokens are found by the text that the file writes") {
  const auto tokens = parsed(test::byte_level_file({" the"}).json());
  REQUIRE(tokens->find("\u0120the"));
  CHECK(tokens->piece(*tokens->find("\u0120the"), true) == " the");
  CHECK_FALSE(tokens->find("nothing"));
  CHECK(tokens->piece(1'000'000, false).empty());
  CHECK(tokens->vocabulary_size() == 256 + 3 + 2);
}

TEST_CASE("any bytes can be encoded, and byte-level text comes back as it was") {
  const auto tokens = parsed(test::byte_level_file({" the", "ing", "\u20AC"}).json());
  const auto metaspace = parsed(test::metaspace_file({"▁", "a", "b"}, {{"▁", "a"}}).json());
  const unsigned seed = std::random_device{}();
  MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (unsigned i = 0, count = random() % 40; i < count; ++i) {
      const unsigned kind = random() % 4;
      if (kind == 0) text += "\u20AC";
      if (kind == 1) text += static_cast<char>(random() % 256);
      if (kind == 2) text += " the";
      if (kind == 3) text += static_cast<char>('a' + random() % 3);
    }
    CAPTURE(round);
    std::string bytes;
    for (const core::token_id id : tokens->encode(text, {.parse_special_tokens = false}))
      bytes += tokens->piece(id, false);
    CHECK(bytes == text);
    bytes.clear();
    bool first = true;
    for (const core::token_id id : metaspace->encode(text, {.add_special_tokens = false})) {
      bytes += metaspace->piece(id, std::exchange(first, false));
    }
    CHECK(bytes == text);
  }
}

TEST_CASE("16 MiB of one letter, of spaces, and without spaces are encoded") {
  const auto tokens = with_pre_tokenizer(split(llama3_pattern, "Isolated"), {"aa", "aaaa"});
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::size_t size = 2 << 20;  // the whole size takes a minute here
#else
  constexpr std::size_t size = 16 << 20;
#endif
  CHECK(tokens->encode(std::string(size, 'a'), {}).size() == size / 2);
  CHECK(tokens->encode(std::string(size, ' '), {}).size() == size);
  std::string mixed;
  for (std::size_t i = 0; i < size; ++i) mixed.push_back(static_cast<char>('a' + i % 23));
  CHECK(tokens->encode(mixed, {}).size() == size);
}

TEST_CASE("threads that encode the same words at once get the same tokens") {
  const auto tokens = parsed(test::byte_level_file({" alpha", " beta", " gamma", "delta"}).json());
  const std::string text = "delta alpha beta gamma alpha gamma beta delta alphabet";
  const auto want = tokens->encode(text, {});
  const auto fresh = parsed(test::byte_level_file({" alpha", " beta", " gamma", "delta"}).json());
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  for (std::size_t i = 0; i < equal.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) equal[i] += fresh->encode(text, {}) == want ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(equal == std::vector<int>(4, 200));
}
