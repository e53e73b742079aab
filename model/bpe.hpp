#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "model/bpe_table.hpp"

namespace yolk::model {

struct bpe_options {
  bool byte_level = false;     ///< symbols are bytes, else characters
  bool byte_fallback = false;  ///< characters without a token become the tokens <0x00> .. <0xFF>
  bool fuse_unknown = false;   ///< neighbouring unknown characters become one unknown token
  bool ignore_merges = false;  ///< a word that is a token is that token, whatever the merges say
  std::optional<core::token_id> unknown;
};

/// Scratch memory of one encode call, and the count of the work done.
struct bpe_workspace {
  struct symbol {
    core::token_id id;
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct candidate {
    std::uint32_t rank;
    std::uint32_t position;
    core::token_id result;
  };
  std::vector<core::token_id> ids;
  std::vector<std::uint32_t> ranks;
  std::vector<core::token_id> results;
  std::vector<symbol> symbols;
  std::vector<candidate> heap;
  std::uint64_t steps = 0;  ///< pairs looked at: the tests' measure of how work grows with the text
};

/// Byte pair encoding of single words: merges the neighbours of the lowest rank, leftmost first, until none
/// can be merged (Sennrich, Haddow, Birch 2016, as Hugging Face's tokenizers do it). Immutable; thread-safe.
class bpe {
 public:
  /// Longer words are cut: bounds the memory of one call (64 MiB), whatever the text.
  static constexpr std::size_t max_word_symbols = std::size_t{1} << 20;

  /// `special[id]`: tokens that only added_tokens may give. No merge makes one.
  /// `indexed`: the tokens that merging may give; others are known by id only.
  bpe(token_table tokens, const std::vector<core::token_id>& indexed, merge_table merges, bpe_options options,
      std::vector<bool> special);

  /// Appends the tokens of `word`, which may be any bytes.
  void encode(std::string_view word, bpe_workspace& work, std::vector<core::token_id>& out) const;
  [[nodiscard]] const token_table& tokens() const { return tokens_; }

 private:
  void encode_part(std::string_view part, bpe_workspace& work, std::vector<core::token_id>& out) const;
  void add_symbols(std::string_view part, std::vector<core::token_id>& ids) const;
  /// False where byte fallback does not cover `bytes`.
  bool add_bytes(std::string_view bytes, std::vector<core::token_id>& ids) const;
  [[nodiscard]] core::token_id character(std::string_view bytes) const;
  void merge(bpe_workspace& work) const;
  void merge_short(bpe_workspace& work) const;
  void merge_long(bpe_workspace& work) const;
  [[nodiscard]] bool makes_itself(core::token_id id, bpe_workspace& work) const;
  void find_word_breaks();

  token_table tokens_;
  merge_table merges_;
  bpe_options options_;
  std::vector<bool> special_;
  std::array<core::token_id, 256> bytes_{};  ///< byte level: of each byte; else the fallback tokens
  std::array<core::token_id, 128> ascii_{};
  bool breaks_at_metaspace_ = false;
  /// Whether merging a token's bytes gives that token: 0 not known yet, 1 yes, 2 no. Threads that race for it
  /// write the same.
  mutable std::unique_ptr<std::atomic<std::uint8_t>[]> itself_;
};

}  // namespace yolk::model
