// The tokenizer that the repository ships, against the ids that the program that trained it gave.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/chat_template.hpp"
#include "model/tokenizer.hpp"

using namespace yolk;
using namespace yolk::model;

namespace {

const std::filesystem::path root = YOLK_SOURCE_DIR;

std::shared_ptr<const tokenizer> builtin() {
  auto loaded = tokenizer::load(root / "model" / "builtin");
  if (!loaded) FAIL(loaded.error().message);
  return *loaded;
}

}  // namespace

TEST_CASE("the builtin tokenizer gives the ids of its training") {
  const auto tokens = builtin();
  std::ifstream in(root / "tests" / "data" / "builtin" / "tokenizer_cases.json");
  const auto cases = nlohmann::json::parse(in);
  CHECK(cases.size() > 40);
  for (const auto& item : cases) {
    const std::string text = item["text"];
    CAPTURE(text);
    const auto ids = tokens->encode(text, {});
    CHECK(ids == item["ids"].get<std::vector<core::token_id>>());
    CHECK(tokens->decode(ids, false) == text);
  }
}

TEST_CASE("the builtin chat template opens the assistant's turn") {
  const auto tokens = builtin();
  const auto chat = chat_template::recognise(tokens);
  if (!chat) FAIL(chat.error().message);
  CHECK((*chat)->name() == "chatml");
  const std::vector<chat_message> messages = {{"user", "What does the red fox hold?"}};
  const std::string want = "<|im_start|>user\nWhat does the red fox hold?<|im_end|>\n<|im_start|>assistant\n";
  CHECK((*chat)->render(messages, {}).value() == want);
  CHECK((*chat)->encode(messages, {}).value() == tokens->encode(want, {}));
  CHECK(tokens->is_special(*tokens->eos()));
}
