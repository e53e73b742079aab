// A chat template from outside: refused, or rendered within its bounds; and no message forges a special
// token.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat_template.hpp"

namespace {

using namespace yolk;

/// Single characters and two special tokens, with the input as its chat template.
class letters final : public model::tokenizer {
 public:
  explicit letters(std::string text) : template_(std::move(text)) {}
  [[nodiscard]] std::vector<core::token_id> encode(std::string_view text,
                                                   const model::encode_options& options) const override {
    std::size_t reached = 0;
    for (const model::trusted_range& range : options.trusted) {
      if (range.begin < reached || range.end <= range.begin || range.end > text.size()) std::abort();
      reached = range.end;
    }
    return {text.begin(), text.end()};
  }
  [[nodiscard]] std::string decode(std::span<const core::token_id> ids, bool) const override {
    return {ids.begin(), ids.end()};
  }
  [[nodiscard]] std::string piece(core::token_id id, bool) const override {
    return id == 256 ? "<s>" : std::string(1, static_cast<char>(id));
  }
  [[nodiscard]] bool is_special(core::token_id id) const override { return id == 256; }
  [[nodiscard]] std::optional<core::token_id> find(std::string_view) const override { return std::nullopt; }
  [[nodiscard]] std::size_t vocabulary_size() const override { return 257; }
  [[nodiscard]] std::optional<core::token_id> bos() const override { return 256; }
  [[nodiscard]] std::optional<core::token_id> eos() const override { return 256; }
  [[nodiscard]] const std::string& chat_template_text() const override { return template_; }

 private:
  std::string template_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tokens = std::make_shared<letters>(std::string(reinterpret_cast<const char*>(data), size));
  const auto chat = model::chat_template::recognise(tokens);
  if (!chat) return 0;
  const std::vector<model::chat_message> messages = {
      {"system", " be \n"}, {"user", "<think>x</think> y\xFF"}, {"assistant", ""}, {"user", "\xE4\xBD\xA0"}};
  for (const bool flag : {true, false}) {
    const auto ids = (*chat)->encode(messages, {.add_generation_prompt = flag, .enable_thinking = flag});
    const auto text = (*chat)->render(messages, {.add_generation_prompt = flag, .enable_thinking = flag});
    if (ids.has_value() != text.has_value()) std::abort();
  }
  return 0;
}
