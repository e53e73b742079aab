#include "model/tokenizer_pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

namespace yolk::model {

namespace {

constexpr std::size_t max_expression_bytes = 16 * 1024;
/// Steps of one match. Real patterns need a few per character of a match; this stops exponential ones.
constexpr std::uint32_t max_match_steps = 10'000'000;

struct free_code {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct free_data {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct free_context {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

constexpr std::string_view white_space_set = "\\t-\\r\\x{85}\\p{Z}";

}  // namespace

struct text_pattern::compiled {
  std::unique_ptr<pcre2_code, free_code> code;
  bool jit = false;
};

struct text_pattern::matcher::state {
  std::unique_ptr<pcre2_match_data, free_data> data;
  std::unique_ptr<pcre2_match_context, free_context> context;
};

std::string to_pcre2(std::string_view expression) {
  std::string out;
  out.reserve(expression.size() * 2);
  bool in_set = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char escaped = expression[++i];
      if (escaped == 's') {
        out.append(in_set ? std::string(white_space_set) : '[' + std::string(white_space_set) + ']');
      } else if (escaped == 'S' && !in_set) {
        out.append("[^").append(white_space_set).append("]");
      } else {
        out.push_back('\\');
        out.push_back(escaped);
      }
      continue;
    }
    if (c == '[' && !in_set) {
      in_set = true;
      out.push_back(c);
      // A bracket right after "[" or "[^" is a member of the set.
      if (i + 1 < expression.size() && expression[i + 1] == '^') out.push_back(expression[++i]);
      if (i + 1 < expression.size() && expression[i + 1] == ']') out.push_back(expression[++i]);
      continue;
    }
    if (c == ']' && in_set) in_set = false;
    out.push_back(c);
  }
  return out;
}

text_pattern text_pattern::literal(std::string text) {
  text_pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

result<text_pattern> text_pattern::regex(std::string_view expression, std::string_view field) {
  const auto fail = [&](errc code, const std::string& why) {
    return core::failure<errc>{code, std::string(field) + ": " + why};
  };
  if (expression.size() > max_expression_bytes) {
    return fail(errc::malformed, "the expression has " + std::to_string(expression.size()) +
                                     " bytes, the limit is " + std::to_string(max_expression_bytes));
  }
  const std::string translated = to_pcre2(expression);
  int error = 0;
  PCRE2_SIZE at = 0;
  auto result = std::make_shared<compiled>();
  // Oniguruma's ^ and $ match at every line. \C could cut a character in two.
  constexpr std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  result->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   options, &error, &at, nullptr));
  if (!result->code) {
    std::array<char, 160> message{};
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message.data()), message.size());
    return fail(errc::unsupported, "the expression does not compile: " + std::string(message.data()));
  }
  result->jit = pcre2_jit_compile(result->code.get(), PCRE2_JIT_COMPLETE) == 0;
  text_pattern pattern;
  pattern.compiled_ = std::move(result);
  return pattern;
}

text_pattern::matcher::matcher(const text_pattern& pattern) : pattern_(&pattern) {
  if (!pattern.compiled_) return;
  state_ = std::make_shared<state>();
  state_->data.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(state_->context.get(), max_match_steps);
}

bool text_pattern::matcher::find(std::string_view text, std::size_t from, std::size_t& begin,
                                 std::size_t& end) {
  if (!state_) {
    if (pattern_->literal_.empty()) return false;
    const std::size_t at = text.find(pattern_->literal_, from);
    if (at == std::string_view::npos) return false;
    begin = at;
    end = at + pattern_->literal_.size();
    return true;
  }
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const compiled& compiled = *pattern_->compiled_;
  int count = PCRE2_ERROR_JIT_STACKLIMIT;
  if (compiled.jit) {
    count = pcre2_jit_match(compiled.code.get(), subject, text.size(), from, 0, state_->data.get(),
                            state_->context.get());
  }
  if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
    // The interpreter keeps its backtracking on the heap, within PCRE2's own limit of 20 MB.
    count = pcre2_match(compiled.code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                        state_->data.get(), state_->context.get());
  }
  if (count < 0) return false;
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(state_->data.get());
  begin = range[0];
  end = range[1];
  // \K inside of a look-around can turn a match around.
  return begin >= from && end >= begin && end <= text.size();
}

}  // namespace yolk::model
