// tokenizer.json from outside: whatever it holds is refused with an error, or is a tokenizer that encodes and
// decodes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "model/tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yolk;
  std::string_view json(reinterpret_cast<const char*>(data), size);
  // A file may end with a configuration of its own behind a NUL, which JSON cannot hold.
  std::string_view config;
  if (const std::size_t end = json.find('\0'); end != std::string_view::npos) {
    config = json.substr(end + 1);
    json = json.substr(0, end);
  }
  const auto loaded = model::tokenizer::parse(json, config, "fuzz");
  if (!loaded) {
    if (loaded.error().message.find("fuzz/tokenizer") != 0) std::abort();  // an error names the file
    return 0;
  }
  const model::tokenizer& tokens = **loaded;
  constexpr std::string_view texts[] = {
      "", "Hello, world! it's 123\n\n  ab", "\xE4\xBD\xA0\xE5\xA5\xBD e\xCC\x81 \xF0\x9F\x98\x80<|im_end|>",
      "\xFF\xE2\x82 \xC0\x80", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  for (const std::string_view text : texts) {
    for (const bool special : {true, false}) {
      const auto ids = tokens.encode(text, {.add_special_tokens = special, .parse_special_tokens = special});
      for (const core::token_id id : ids) {
        if (id >= tokens.vocabulary_size()) std::abort();
      }
      static_cast<void>(tokens.decode(ids, special));
    }
  }
  const std::vector<core::token_id> strange = {0, 1, 0xffffffffu,
                                               static_cast<core::token_id>(tokens.vocabulary_size())};
  static_cast<void>(tokens.decode(strange, true));
  static_cast<void>(tokens.find("a"));
  return 0;
}
