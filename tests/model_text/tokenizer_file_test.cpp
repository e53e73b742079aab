// Files that are broken, cut or lie: one error that names the file and the field, never a crash.
#include "model/tokenizer_file.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "model/tokenizer.hpp"
#include "tests/model_text/small_tokenizers.hpp"

using namespace yolk::model;

namespace {

std::string refused(const std::string& json, const std::string& config = "") {
  const auto loaded = tokenizer::parse(json, config, "DIR");
  return loaded ? "no error" : loaded.error().message;
}

errc code_of(const std::string& json) {
  const auto loaded = tokenizer::parse(json, "", "DIR");
  REQUIRE_FALSE(loaded);
  return loaded.error().code;
}

std::string with_model(const std::string& fields) {
  return R"({"model":{"type":"BPE",)" + fields + "}}";
}
std::string with_stage(const std::string& stages) {
  return test::joined({R"({"model":{"vocab":{"a":0},"merges":[]},)", stages, "}"});
}

void check(const std::string& message, std::string_view begin, std::string_view part = "") {
  CAPTURE(message);
  CHECK(message.starts_with(begin));
  CHECK(message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("merges that name or make what is no token are named by their place") {
  test::small_file file = test::byte_level_file({"ab"});
  file.merges.emplace_back("ab", "zz");
  check(refused(file.json()), "DIR/tokenizer.json: model.merges[1]: names \"zz\"");
  CHECK(code_of(file.json()) == errc::inconsistent);
  file.merges[1] = {"a", "c"};
  check(refused(file.json()), "DIR/tokenizer.json: model.merges[1]: makes \"ac\"");
  file.merges[1] = {"", "ab"};
  check(refused(file.json()), "DIR/tokenizer.json: model.merges[1]: has an empty token");
}

TEST_CASE("merges may be strings of two tokens, and nothing else") {
  const std::string vocabulary = R"("vocab":{"a":0,"b":1,"ab":2},"merges":)";
  CHECK(refused(with_model(vocabulary + R"(["a b"])")) == "no error");
  check(refused(with_model(vocabulary + R"(["ab"])")), "DIR/tokenizer.json: model.merges[0]: ");
  check(refused(with_model(vocabulary + R"(["a b c"])")), "DIR/tokenizer.json: model.merges[0]: ");
  check(refused(with_model(vocabulary + R"(["a b",["a"]])")),
        "DIR/tokenizer.json: model.merges[1]: has 1 tokens");
  check(refused(with_model(vocabulary + R"([["a","b","c"]])")), "DIR/tokenizer.json: model.merges[0]: ");
  check(refused(with_model(vocabulary + R"([5])")), "DIR/tokenizer.json: model.merges[0]: is a number");
  check(refused(with_model(vocabulary + R"({"a":1})")), "DIR/tokenizer.json: model.merges: ");
}

TEST_CASE("ids that are no ids, too large, or given twice are named by their token") {
  check(refused(with_model(R"("vocab":{"x":"y"},"merges":[])")),
        "DIR/tokenizer.json: model.vocab[\"x\"]: is a string");
  check(refused(with_model(R"("vocab":{"x":-1},"merges":[])")),
        "DIR/tokenizer.json: model.vocab[\"x\"]: is a negative");
  check(refused(with_model(R"("vocab":{"x":1.5},"merges":[])")),
        "DIR/tokenizer.json: model.vocab[\"x\"]: is a fraction");
  check(refused(with_model(R"("vocab":{"x":{}},"merges":[])")),
        "DIR/tokenizer.json: model.vocab[\"x\"]: is an object");
  check(refused(with_model(R"("vocab":{"x":99999999999},"merges":[])")),
        "DIR/tokenizer.json: model.vocab[\"x\"]: ", "out of range");
  check(refused(with_model(R"("vocab":{"x":4000000000},"merges":[])")),
        "DIR/tokenizer.json: model.vocab[\"x\"]: ", "too large");
  check(refused(with_model(R"("vocab":{"x":0,"y":0},"merges":[])")),
        "DIR/tokenizer.json: model.vocab[\"y\"]: ", "another token");
  check(refused(with_model(R"("vocab":{"x":0,"x":1},"merges":[])")),
        "DIR/tokenizer.json: model.vocab[\"x\"]: is there twice");
  check(refused(with_model(R"("vocab":{},"merges":[])")), "DIR/tokenizer.json: model.vocab: ");
  check(refused(with_model(R"("merges":[])")), "DIR/tokenizer.json: model.vocab: ");
}

TEST_CASE("added tokens that contradict the vocabulary or each other are refused") {
  const auto added = [](const std::string& tokens) {
    return refused(
        test::joined({R"({"added_tokens":[)", tokens, R"(],"model":{"vocab":{"a":0,"b":1},"merges":[]}})"}));
  };
  CHECK(added(R"({"id":0,"content":"a"},{"id":2,"content":"c","special":true})") == "no error");
  check(added(R"({"id":5,"content":"a"})"), "DIR/tokenizer.json: added_tokens[0]: ", "in model.vocab 0");
  check(added(R"({"id":0,"content":"x"})"), "DIR/tokenizer.json: added_tokens[0]: ", "belongs to \"a\"");
  check(added(R"({"id":2,"content":"x"},{"id":2,"content":"y"})"),
        "DIR/tokenizer.json: added_tokens[1]: ", "belongs to \"x\"");
  check(added(R"({"id":2,"content":"x"},{"id":2,"content":"x"})"),
        "DIR/tokenizer.json: added_tokens[1]: ", "twice");
  check(added(R"({"id":2,"content":""})"), "DIR/tokenizer.json: added_tokens[0].content: ");
  check(added(R"({"id":"2","content":"x"})"), "DIR/tokenizer.json: added_tokens[0].id: ");
  check(added(R"({"content":"x"})"), "DIR/tokenizer.json: added_tokens[0].id: is missing");
  check(added(R"({"id":2,"content":"x","special":1})"), "DIR/tokenizer.json: added_tokens[0].special: ");
  check(added(R"({"id":2,"content":")" + std::string(5000, 'x') + "\"}"),
        "DIR/tokenizer.json: added_tokens[0].content: ", "limit is 4096");
  check(added(R"({"id":3000000,"content":"x"})"), "DIR/tokenizer.json: added_tokens[0].id: ", "too large");
}

TEST_CASE("what is no JSON is said to be none, and where") {
  check(refused(""), "DIR/tokenizer.json: byte ", "is no JSON");
  check(refused("[]"), "DIR/tokenizer.json: the file: is no JSON object");
  check(refused("{\"model\":{\"vocab\":{\"\xFF\":0}}}"), "DIR/tokenizer.json: byte ", "UTF-8");
  check(refused(R"({"a":1e999})"), "DIR/tokenizer.json: byte ");
  const std::string deep = R"({"x":)" + std::string(100'000, '[');
  check(refused(deep), "DIR/tokenizer.json: ", "nested deeper than 64");
  const std::string whole = test::byte_level_file({"the"}).json();
  for (std::size_t length = 0; length < whole.size(); length += 13) {
    CAPTURE(length);
    check(refused(whole.substr(0, length)), "DIR/tokenizer.json: ");
  }
}

TEST_CASE("types of the wrong kind anywhere are named") {
  check(refused(R"({"model":5})"), "DIR/tokenizer.json: model");
  check(refused(R"({"model":{"type":"Unigram","vocab":[["a",0.5]]}})"),
        "DIR/tokenizer.json: model: the type Unigram (another than BPE) is not supported");
  CHECK(code_of(R"({"model":{"type":"WordPiece","vocab":{"a":0}}})") == errc::unsupported);
  check(refused(with_model(R"("vocab":{"a":0},"merges":[],"byte_fallback":"yes")")),
        "DIR/tokenizer.json: model.byte_fallback: ");
  check(refused(with_model(R"("vocab":{"a":0},"merges":[],"unk_token":"u")")),
        "DIR/tokenizer.json: model.unk_token: \"u\" is no token");
  check(refused(with_model(R"("vocab":{"a":0},"merges":[],"end_of_word_suffix":"</w>")")),
        "DIR/tokenizer.json: model.end_of_word_suffix: ");
  check(refused(with_stage(R"("normalizer":{"type":"Lowercase"})")),
        "DIR/tokenizer.json: normalizer: the normalizer Lowercase is not supported");
  check(refused(with_stage(R"("normalizer":[])")), "DIR/tokenizer.json: normalizer: must be an object");
  check(refused(with_stage(R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Nothing"}]})")),
        "DIR/tokenizer.json: pre_tokenizer.pretokenizers[0]: ");
  check(refused(
            with_stage(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(("},"behavior":"Isolated"})")),
        "DIR/tokenizer.json: pre_tokenizer.pattern.Regex: the expression does not compile");
  check(refused(
            with_stage(R"("pre_tokenizer":{"type":"Split","pattern":{"String":""},"behavior":"Isolated"})")),
        "DIR/tokenizer.json: pre_tokenizer.pattern.String: ");
  check(refused(with_stage(R"("pre_tokenizer":{"type":"Split","pattern":{"String":"x"},"behavior":"Odd"})")),
        "DIR/tokenizer.json: pre_tokenizer.behavior: ");
  check(refused(with_stage(R"("pre_tokenizer":{"type":"Metaspace","prepend_scheme":"odd"})")),
        "DIR/tokenizer.json: pre_tokenizer.prepend_scheme: ");
  check(refused(with_stage(R"("decoder":{"type":"CTC"})")), "DIR/tokenizer.json: decoder: ");
  check(refused(with_stage(R"("decoder":{"type":"Strip","content":" ","start":7})")),
        "DIR/tokenizer.json: decoder: ");
  check(refused(with_stage(
            R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}}]})")),
        "DIR/tokenizer.json: post_processor.single: \"<s>\" is no token");
  std::string nested = R"({"type":"Sequence","normalizers":[)";
  std::string stages;
  for (int i = 0; i < 20; ++i) stages += nested;
  for (int i = 0; i < 20; ++i) stages += "]}";
  check(refused(with_stage(R"("normalizer":)" + stages)), "DIR/tokenizer.json: normalizer.",
        "nested deeper than 8");
}

TEST_CASE("an expression that would take for ever ends in words, not in a hang") {
  const std::string json = with_stage(
      R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(a|a)*(a|a)*(a|a)*x"},"behavior":"Isolated"},{"type":"ByteLevel"}]})");
  const auto loaded = tokenizer::parse(json, "", "DIR");
  if (!loaded) FAIL(loaded.error().message);
  CHECK((*loaded)->encode(std::string(60, 'a'), {.add_special_tokens = false}).size() == 60);
}

TEST_CASE("tokenizer_config.json is checked as well") {
  const std::string json = test::byte_level_file({}).json();
  check(refused(json, "{"), "DIR/tokenizer_config.json: byte ");
  check(refused(json, R"({"bos_token":5})"), "DIR/tokenizer_config.json: bos_token");
  check(refused(json, R"({"bos_token":"<s>","add_bos_token":true})"),
        "DIR/tokenizer_config.json: bos_token: \"<s>\" is no token");
  check(refused(json, R"({"add_bos_token":"x"})"), "DIR/tokenizer_config.json: add_bos_token: ");
  check(refused(json, R"({"chat_template":[{"name":"default"}]})"),
        "DIR/tokenizer_config.json: chat_template[0].template: is missing");
  CHECK(refused(json, R"({"bos_token":"<s>","eos_token":null})") == "no error");
}

TEST_CASE("a folder is read with its chat template file, and what is missing is said") {
  const auto folder = std::filesystem::path(YOLK_BINARY_DIR) / "tokenizer_file_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto missing = tokenizer::load(folder);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == errc::not_found);
  check(missing.error().message, (folder / "tokenizer.json").string());
  std::ofstream(folder / "tokenizer.json") << test::byte_level_file({}).json();
  std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template":"old"})";
  REQUIRE(tokenizer::load(folder));
  CHECK(tokenizer::load(folder).value()->chat_template_text() == "old");
  std::ofstream(folder / "chat_template.jinja") << "new";
  CHECK(tokenizer::load(folder).value()->chat_template_text() == "new");
  std::filesystem::remove_all(folder);
}
