#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "model/errc.hpp"
#include "model/tokenizer_added.hpp"
#include "model/tokenizer_stages.hpp"

namespace yolk::model {

/// How tokens become text again.
struct decoder_spec {
  bool byte_level = false;
  bool byte_fallback = false;                                     ///< "<0x0A>" stands for that byte
  bool drops_first_space = false;                                 ///< one space at the very start of the text
  std::vector<std::pair<std::string, std::string>> replacements;  ///< within each token
};

/// tokenizer.json, read and checked for types; what needs the vocabulary as a whole is checked by who builds
/// from it.
struct tokenizer_file {
  std::vector<std::pair<std::string, core::token_id>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
  bool byte_fallback = false;
  bool fuse_unknown = false;
  bool ignore_merges = false;
  std::optional<std::string> unknown;
  std::vector<added_token> added;
  bool byte_level = false;
  std::vector<normalizer_stage> normalizers;
  std::vector<split_stage> splitters;
  decoder_spec decoder;
  std::vector<std::string> before;  ///< special tokens that the post-processor puts before the text
  std::vector<std::string> after;
};

/// What is used of tokenizer_config.json.
struct tokenizer_config_file {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::string chat_template;
};

/// `name` is the file's name in errors.
result<tokenizer_file> read_tokenizer_file(std::string_view text, const std::string& name);
result<tokenizer_config_file> read_tokenizer_config(std::string_view text, const std::string& name);

/// The character that GPT-2's byte-level vocabularies write for a byte, and back.
std::string byte_level_character(std::uint8_t byte);
/// Nothing where a character of `text` stands for no byte.
std::optional<std::string> byte_level_bytes(std::string_view text);

}  // namespace yolk::model
