#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "model/tokenizer.hpp"

namespace yolk::model {

struct text_stream_options {
  std::vector<std::string> stop;  ///< stop strings, matched across tokens
  bool include_stop = false;
  bool skip_special_tokens = true;
};

/// Turns a sequence's tokens into text that can be sent: whole UTF-8 characters only, and nothing that might
/// still become part of a stop string. Of several stop strings the one that is complete first counts, of
/// those that end together the longest. Owned by one request; not thread-safe.
class text_stream {
 public:
  text_stream(std::shared_ptr<const tokenizer> tokens, text_stream_options options);
  /// Text that is certain now (may be empty). After stopped() it is always empty.
  std::string push(core::token_id token);
  /// What was held back; an incomplete character becomes U+FFFD.
  std::string finish();
  [[nodiscard]] bool stopped() const;                    ///< a stop string was met
  [[nodiscard]] const std::string& stop_string() const;  ///< which one

 private:
  /// Knuth, Morris and Pratt's automaton of one stop string: how much of its start the text so far ends with.
  struct stop_matcher {
    std::string text;
    std::vector<std::uint32_t> fallback;
    std::size_t matched = 0;
    void take(char byte);
  };
  /// Moves whole characters on from the tail and returns what is certain.
  std::string advance(bool at_end);

  std::shared_ptr<const tokenizer> tokens_;
  text_stream_options options_;
  std::vector<stop_matcher> matchers_;
  std::string tail_;     ///< the bytes of a character that is not whole yet
  std::string pending_;  ///< whole characters that a stop string may begin with
  std::string matched_;
  bool first_ = true;
  bool stopped_ = false;
};

}  // namespace yolk::model
