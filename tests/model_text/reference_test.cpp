// Compares with other implementations over real vocabularies and templates. scripts/fetch_test_tokenizers.sh
// fetches them; where it has not run this program ends with the code that ctest reports as skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/chat_template.hpp"
#include "model/tokenizer.hpp"
#include "tests/model_text/small_tokenizers.hpp"

using nlohmann::json;
using namespace yolk;
using namespace yolk::model;

namespace {

constexpr int skipped = 77;
const std::filesystem::path folder = std::filesystem::path(YOLK_SOURCE_DIR) / "build" / "npm";

const json& cases() {
  static const json document = [] {
    std::ifstream in(folder / "cases.json", std::ios::binary);
    return json::parse(in);
  }();
  return document;
}

using ids = std::vector<core::token_id>;

}  // namespace

TEST_CASE("token ids and decoded text equal those of another implementation on real vocabularies") {
  for (const json& entry : cases()["tokenizers"]) {
    const std::string name = entry["name"];
    CAPTURE(name);
    const auto loaded = tokenizer::load(entry["models"].get<std::string>());
    if (!loaded) FAIL(loaded.error().message);
    const tokenizer& tokens = **loaded;
    std::size_t count = 0;
    for (const json& item : entry["cases"]) {
      const std::string text = item["text"];
      CAPTURE(text);
      const auto encoded = tokens.encode(text, {.add_special_tokens = false});
      CHECK(encoded == item["ids"].get<ids>());
      CHECK(tokens.encode(text, {}) == item["framed"].get<ids>());
      CHECK(tokens.decode(encoded, false) == item["decoded"].get<std::string>());
      ++count;
    }
    MESSAGE(name << ": " << count << " texts");
    CHECK(count > 300);
  }
}

TEST_CASE("prompts equal those of another renderer for real chat templates") {
  std::vector<std::vector<chat_message>> conversations;
  for (const json& conversation : cases()["conversations"]) {
    conversations.emplace_back();
    for (const json& message : conversation)
      conversations.back().push_back({message["role"], message["content"]});
  }
  const json& date = cases()["today"];
  const std::chrono::year_month_day today(std::chrono::year(date[0]),
                                          std::chrono::month(date[1].get<unsigned>()),
                                          std::chrono::day(date[2].get<unsigned>()));
  test::small_file file = test::byte_level_file({});
  file.added = R"({"id":300,"content":"<s>","special":true},{"id":301,"content":"</s>","special":true})";
  // What the other renderer alone cannot do: it says so in words of its own.
  const auto cannot = [](const std::string& error) {
    return error.find("Expected iterable") != std::string::npos || error.find("Unknown") != std::string::npos;
  };
  // And where it is not Jinja 2: lstrip('\n') strips all white space; a name set in a loop lives on in the
  // next round.
  const auto differs = [](const std::string& name, std::size_t conversation) {
    return (name == "library/qwq:32b" && conversation == 2) ||
           (name == "library/llama-guard3:8b" && conversation == 12);
  };
  std::size_t rendered = 0;
  for (const json& entry : cases()["templates"]) {
    const std::string name = entry["name"];
    CAPTURE(name);
    const auto has_text = [](const json& item) { return item.contains("text"); };
    if (std::none_of(entry["cases"].begin(), entry["cases"].end(), has_text)) continue;
    const json config = {{"chat_template", entry["text"]}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const auto tokens = tokenizer::parse(file.json(), config.dump(), "small");
    REQUIRE(tokens);
    const auto made = chat_template::recognise(*tokens);
    if (!made) {
      MESSAGE(made.error().message);
      CHECK(false);
      continue;
    }
    for (const json& item : entry["cases"]) {
      const auto& messages = conversations[item["conversation"].get<std::size_t>()];
      const json& chosen = item["options"];
      const chat_options options = {.add_generation_prompt = chosen["add_generation_prompt"],
                                    .enable_thinking = chosen.value("enable_thinking", true),
                                    .today = today};
      CAPTURE(item["conversation"].get<std::size_t>());
      CAPTURE(chosen.dump());
      const auto prompt = (*made)->render(messages, options);
      const std::string error = item.value("error", "");
      if (cannot(error) || differs(name, item["conversation"])) continue;
      CHECK(prompt.has_value() == error.empty());
      if (!error.empty()) {
        // Where the template itself refuses, the words are its own.
        const bool own = error.find("Cannot perform") == std::string::npos;
        if (!prompt && own) CHECK(prompt.error().message.find(error) != std::string::npos);
        if (!prompt) CHECK(prompt.error().code == errc::malformed);
        continue;
      }
      if (!prompt) MESSAGE(prompt.error().message);
      if (!prompt) continue;
      CHECK(*prompt == item["text"].get<std::string>());
      // A conversation without special tokens in it gives the tokens of its prompt.
      const auto encoded = (*made)->encode(messages, options);
      REQUIRE(encoded);
      CHECK(*encoded == (*tokens)->encode(*prompt, {.add_special_tokens = false}));
      ++rendered;
    }
  }
  MESSAGE(rendered << " prompts");
  CHECK(rendered > 1000);
}

TEST_CASE("a prompt's tokens are those of its text on real vocabularies, and messages forge none") {
  for (const json& entry : cases()["tokenizers"]) {
    const std::string name = entry["name"];
    CAPTURE(name);
    const auto tokens = tokenizer::load(entry["models"].get<std::string>());
    REQUIRE(tokens);
    const auto chat = chat_template::recognise(*tokens);
    if (!chat) continue;  // llama2 and gpt4o bring none
    for (const json& item : entry["cases"]) {
      const std::string text = item["text"];
      const std::vector<chat_message> messages = {{"user", text}, {"assistant", text}, {"user", text}};
      const auto prompt = (*chat)->render(messages, {});
      const auto ids = (*chat)->encode(messages, {});
      REQUIRE(prompt);
      REQUIRE(ids);
      CAPTURE(text);
      CHECK((*tokens)->decode(*ids, false) ==
            (*tokens)->decode((*tokens)->encode(*prompt, {.add_special_tokens = false}), false));
      // With a special token's text in it the two differ; else they must not.
      const auto plain = (*tokens)->encode(text, {.add_special_tokens = false});
      const auto trusted =
          (*tokens)->encode(text, {.add_special_tokens = false, .parse_special_tokens = false});
      if (plain == trusted) CHECK(*ids == (*tokens)->encode(*prompt, {.add_special_tokens = false}));
      const auto specials = [&](const std::vector<core::token_id>& list) {
        return std::count_if(list.begin(), list.end(),
                             [&](core::token_id id) { return (*tokens)->is_special(id); });
      };
      const std::vector<chat_message> innocent = {{"user", "a"}, {"assistant", "b"}, {"user", "c"}};
      CHECK(specials(*ids) == specials((*chat)->encode(innocent, {}).value()));
    }
  }
}

int main(int argc, char** argv) {
  if (!std::filesystem::exists(folder / "cases.json")) {
    std::printf("skipped: run scripts/fetch_test_tokenizers.sh first\n");
    return skipped;
  }
  doctest::Context context(argc, argv);
  return context.run();
}
