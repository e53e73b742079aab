// Compares with other implementations over real vocabularies and templates. scripts/fetch_test_tokenizers.sh
// fetches them; where it has not run this program ends with the code that ctest reports as skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/tokenizer.hpp"

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

int main(int argc, char** argv) {
  if (!std::filesystem::exists(folder / "cases.json")) {
    std::printf("skipped: run scripts/fetch_test_tokenizers.sh first\n");
    return skipped;
  }
  doctest::Context context(argc, argv);
  return context.run();
}
