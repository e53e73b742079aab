#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"

namespace yolk::model {

/// A token that is found in the text before anything else is done with it.
struct added_token {
  core::token_id id = 0;
  std::string content;
  bool single_word = false;  ///< not inside of a word
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space after it
  bool normalized = false;   ///< looked for in the normalised text
  bool special = false;
  /// May not come from text that is not trusted: a special token, or one that steers the model as those do.
  bool control = false;
};

/// Finds added tokens, leftmost first and longest first. A trie: the work is the text's length times the
/// length of the longest start of a token met, and near nothing where no token begins. Immutable;
/// thread-safe.
class added_token_finder {
 public:
  /// `content` is what is looked for (the normalised form where the token asks for that).
  void add(std::string_view content, std::uint32_t index);
  [[nodiscard]] bool empty() const { return nodes_.size() == 1; }

  struct match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::uint32_t index = 0;
  };
  /// The first match at or after `from` that `accept` takes; of several that begin at one place the longest.
  template <class Accept>
  bool find(std::string_view text, std::size_t from, const Accept& accept, match& found) const {
    for (std::size_t at = from; at < text.size(); ++at) {
      if (roots_[static_cast<std::uint8_t>(text[at])] == 0) continue;
      if (longest(text, at, accept, found)) return true;
    }
    return false;
  }

 private:
  static constexpr std::uint32_t none = 0xffffffffu;
  struct node {
    std::vector<std::pair<char, std::uint32_t>> next;  ///< sorted
    std::uint32_t index = none;
  };

  [[nodiscard]] std::uint32_t child(std::uint32_t parent, char byte) const;

  template <class Accept>
  bool longest(std::string_view text, std::size_t at, const Accept& accept, match& found) const {
    bool any = false;
    std::uint32_t state = roots_[static_cast<std::uint8_t>(text[at])];
    for (std::size_t end = at + 1; state != 0; ++end) {
      const match candidate{at, end, nodes_[state].index};
      if (candidate.index != none && accept(candidate)) {
        found = candidate;
        any = true;
      }
      if (end == text.size()) break;
      state = child(state, text[end]);
    }
    return any;
  }

  std::array<std::uint32_t, 256> roots_{};  ///< 0 = no token begins so
  std::vector<node> nodes_ = std::vector<node>(1);
};

}  // namespace yolk::model
