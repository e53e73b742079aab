#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "model/errc.hpp"

namespace yolk::model {

/// What a pre-tokenizer or normalizer looks for: a fixed string, or a regular expression as Hugging Face's
/// tokenizers (Oniguruma) read it. Compiled once; immutable; thread-safe.
class text_pattern {
 public:
  static text_pattern literal(std::string text);
  /// `field` begins the error: "DIR/tokenizer.json: pre_tokenizer.pattern.Regex".
  static result<text_pattern> regex(std::string_view expression, std::string_view field);

  /// One thread's place to match in. Outlived by its pattern.
  class matcher {
   public:
    explicit matcher(const text_pattern& pattern);
    /// The first match at or after `from`; `text` is valid UTF-8. False also where the expression asks for
    /// more steps than its limit: what is left is then taken to have no match.
    bool find(std::string_view text, std::size_t from, std::size_t& begin, std::size_t& end);

   private:
    struct state;
    const text_pattern* pattern_;
    std::shared_ptr<state> state_;
  };

 private:
  struct compiled;
  std::string literal_;
  std::shared_ptr<const compiled> compiled_;  ///< null for a literal
};

/// The expression in PCRE2's dialect: `\s` and `\S` outside of sets, and `\s` inside, follow property
/// White_Space (PCRE2 adds U+180E).
std::string to_pcre2(std::string_view expression);

}  // namespace yolk::model
