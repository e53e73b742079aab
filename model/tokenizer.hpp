#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "model/errc.hpp"

namespace yolk::model {

/// Bytes [begin, end) of a text.
struct trusted_range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct encode_options {
  bool add_special_tokens = true;  ///< the post-processor's begin-of-text token, where the model has one
  bool parse_special_tokens =
      true;  ///< "<|im_end|>" in the text becomes that token (off for untrusted user text)
  /// Where not empty: that holds only for tokens that lie wholly inside one of these ranges (in order,
  /// apart). A prompt that is a template's text around somebody's words is so encoded as a whole, as the
  /// model saw it in training, and the words can still forge nothing.
  std::span<const trusted_range> trusted = {};
};

/// A tokenizer.json of type BPE (byte-level, or SentencePiece style with byte fallback). Immutable;
/// thread-safe.
class tokenizer {
 public:
  /// Reads tokenizer.json and, where present, tokenizer_config.json of a model's folder.
  static result<std::shared_ptr<const tokenizer>> load(const std::filesystem::path& folder);
  /// From the texts of the two files (config may be empty): for tests and fuzzing. `name` appears in errors.
  static result<std::shared_ptr<const tokenizer>> parse(std::string_view json, std::string_view config_json,
                                                        std::string_view name);
  virtual ~tokenizer() = default;

  /// Never fails: bytes that are no UTF-8 are encoded as bytes (byte-level) or as the unknown token.
  [[nodiscard]] virtual std::vector<core::token_id> encode(std::string_view text,
                                                           const encode_options& options) const = 0;
  [[nodiscard]] virtual std::string decode(std::span<const core::token_id> tokens,
                                           bool skip_special_tokens) const = 0;
  /// The bytes that one token stands for inside a text (what a stream appends; may end inside a UTF-8
  /// character). `first` = at the very start of the decoded text (SentencePiece drops one leading space
  /// there).
  [[nodiscard]] virtual std::string piece(core::token_id token, bool first) const = 0;
  [[nodiscard]] virtual bool is_special(core::token_id token) const = 0;
  [[nodiscard]] virtual std::optional<core::token_id> find(std::string_view token_text) const = 0;
  [[nodiscard]] virtual std::size_t vocabulary_size() const = 0;  ///< highest id + 1
  [[nodiscard]] virtual std::optional<core::token_id> bos() const = 0;
  [[nodiscard]] virtual std::optional<core::token_id> eos() const = 0;  ///< from tokenizer_config.json
  /// The Jinja text of the chat template, empty when the folder has none (tokenizer_config.json or
  /// chat_template.jinja).
  [[nodiscard]] virtual const std::string& chat_template_text() const = 0;
};

}  // namespace yolk::model
