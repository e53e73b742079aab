#pragma once

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

/// Turns a sequence's tokens into text that can be sent: whole UTF-8 characters only, and nothing that might still
/// become part of a stop string. Owned by one request; not thread-safe.
class text_stream {
 public:
  text_stream(std::shared_ptr<const tokenizer> tokens, text_stream_options options);
  /// Text that is certain now (may be empty). After stopped() it is always empty.
  std::string push(core::token_id token);
  /// What was held back; an incomplete character becomes U+FFFD.
  std::string finish();
  [[nodiscard]] bool stopped() const;                   ///< a stop string was met
  [[nodiscard]] const std::string& stop_string() const;  ///< which one

 private:
  std::shared_ptr<const tokenizer> tokens_;
  text_stream_options options_;
  std::string pending_;
  std::string matched_;
  bool first_ = true;
  bool stopped_ = false;
};

}  // namespace yolk::model
