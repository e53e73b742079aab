#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer_pattern.hpp"
#include "model/unicode_text.hpp"

namespace yolk::model {

enum class split_behavior : std::uint8_t {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous
};

/// One normalizer of tokenizer.json.
struct normalizer_stage {
  enum class kind : std::uint8_t { form, prepend, replace } what = kind::form;
  normal_form form = normal_form::nfc;
  text_pattern pattern;
  std::string content;  ///< of prepend and replace
};

/// Applies `stages` to valid UTF-8. Returns `text` itself where nothing changes it, else `buffer`.
/// `continued`: the text goes on from bytes that are no UTF-8, so that nothing is put before it.
std::string_view normalize(const std::vector<normalizer_stage>& stages, std::string_view text, bool continued,
                           std::string& buffer);

/// One pre-tokenizer of tokenizer.json.
struct split_stage {
  enum class kind : std::uint8_t { split, prefix_space, metaspace } what = kind::split;
  text_pattern pattern;  ///< of split; of metaspace that splits: the replacement
  split_behavior behavior = split_behavior::isolated;
  bool invert = false;
  enum class prepend : std::uint8_t { never, first, always } scheme = prepend::always;  ///< of metaspace
  std::string replacement;                                                              ///< of metaspace
  bool splits = true;                                                                   ///< of metaspace
};

/// Who takes the words that the stages make.
class word_sink {
 public:
  virtual void word(std::string_view bytes) = 0;

 protected:
  ~word_sink() = default;
};

/// Runs a piece of text through the stages, word by word, without a list of words between two stages: memory
/// does not grow with the text. Made for one encode call, on its stack.
class splitter {
 public:
  splitter(const std::vector<split_stage>& stages, word_sink& sink);
  /// `first`: the piece begins where the whole text begins.
  void run(std::string_view piece, bool first);

 private:
  void stage(std::size_t index, std::string_view piece, bool first);
  void split(std::size_t index, std::string_view piece, bool first);
  void metaspace(std::size_t index, std::string_view piece, bool first);

  const std::vector<split_stage>& stages_;
  word_sink& sink_;
  std::vector<text_pattern::matcher> matchers_;  ///< one a stage
  std::vector<std::string> buffers_;             ///< one a stage: pieces that a stage made longer
};

}  // namespace yolk::model
