#include "model/tokenizer_stages.hpp"

#include <utility>

namespace yolk::model {

namespace {

struct text_range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::string replaced(const normalizer_stage& stage, std::string_view text) {
  text_pattern::matcher matcher(stage.pattern);
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  std::size_t done = 0;
  std::size_t from = 0;
  text_range match;
  while (from <= text.size() && matcher.find(text, from, match.begin, match.end)) {
    out.append(text.substr(done, match.begin - done));
    out.append(stage.content);
    done = match.end;
    from = match.end;
    if (match.end == match.begin) {
      if (from >= text.size()) break;
      from += utf8_at(text, from).length;
    }
  }
  out.append(text.substr(done));
  return out;
}

/// Puts matches and the text between them together as tokenizers' SplitDelimiterBehavior says, one at a time.
class behavior_machine {
 public:
  explicit behavior_machine(split_behavior behavior) : behavior_(behavior) {}

  /// Takes the next range in order and calls `flush` with each one that is complete.
  template <class Flush>
  void add(text_range range, bool is_match, const Flush& flush) {
    if (range.begin == range.end) return;
    switch (behavior_) {
      case split_behavior::isolated:
        flush(range);
        return;
      case split_behavior::removed:
        if (!is_match) flush(range);
        return;
      case split_behavior::contiguous:
        if (pending_ && was_match_ == is_match) {
          held_.end = range.end;
        } else {
          hold(range, flush);
        }
        break;
      case split_behavior::merged_with_previous:
        if (pending_ && is_match && !was_match_) {
          held_.end = range.end;
        } else {
          hold(range, flush);
        }
        break;
      case split_behavior::merged_with_next:
        if (pending_ && was_match_ && !is_match) {
          held_.end = range.end;
        } else {
          hold(range, flush);
        }
        break;
    }
    was_match_ = is_match;
  }
  template <class Flush>
  void finish(const Flush& flush) {
    if (std::exchange(pending_, false)) flush(held_);
  }

 private:
  template <class Flush>
  void hold(text_range range, const Flush& flush) {
    const text_range complete = std::exchange(held_, range);
    if (std::exchange(pending_, true)) flush(complete);
  }

  split_behavior behavior_;
  text_range held_;
  bool pending_ = false;
  bool was_match_ = false;
};

}  // namespace

std::string_view normalize(const std::vector<normalizer_stage>& stages, std::string_view text, bool continued,
                           std::string& buffer) {
  for (const normalizer_stage& stage : stages) {
    switch (stage.what) {
      case normalizer_stage::kind::form:
        if (stage.form == normal_form::nfc && is_plainly_nfc(text)) continue;
        buffer = normalized(text, stage.form);
        break;
      case normalizer_stage::kind::prepend:
        if (text.empty() || continued) continue;
        buffer = stage.content + std::string(text);
        break;
      case normalizer_stage::kind::replace:
        buffer = replaced(stage, text);
        break;
    }
    text = buffer;
  }
  return text;
}

splitter::splitter(const std::vector<split_stage>& stages, word_sink& sink)
    : stages_(stages), sink_(sink), buffers_(stages.size()) {
  matchers_.reserve(stages.size());
  for (const split_stage& stage : stages) matchers_.emplace_back(stage.pattern);
}

void splitter::run(std::string_view piece, bool first) {
  stage(0, piece, first);
}

void splitter::stage(std::size_t index, std::string_view piece, bool first) {
  if (piece.empty()) return;
  if (index == stages_.size()) {
    sink_.word(piece);
    return;
  }
  switch (stages_[index].what) {
    case split_stage::kind::split:
      split(index, piece, first);
      return;
    case split_stage::kind::metaspace:
      metaspace(index, piece, first);
      return;
    case split_stage::kind::prefix_space:
      if (piece.front() == ' ') {
        stage(index + 1, piece, first);
      } else {
        // The stage's own buffer: a stage is not entered again before it has handed on what it made.
        buffers_[index].assign(1, ' ').append(piece);
        stage(index + 1, buffers_[index], first);
      }
      return;
  }
}

void splitter::split(std::size_t index, std::string_view piece, bool first) {
  const split_stage& self = stages_[index];
  behavior_machine machine(self.behavior);
  const auto flush = [&](text_range range) {
    stage(index + 1, piece.substr(range.begin, range.end - range.begin), first && range.begin == 0);
  };
  std::size_t done = 0;
  std::size_t from = 0;
  text_range match;
  while (from < piece.size() && matchers_[index].find(piece, from, match.begin, match.end)) {
    machine.add({done, match.begin}, self.invert, flush);
    machine.add(match, !self.invert, flush);
    done = match.end;
    from = match.end;
    if (match.begin == match.end && from < piece.size()) from += utf8_at(piece, from).length;
  }
  machine.add({done, piece.size()}, self.invert, flush);
  machine.finish(flush);
}

void splitter::metaspace(std::size_t index, std::string_view piece, bool first) {
  const split_stage& self = stages_[index];
  std::string& text = buffers_[index];
  text.clear();
  const bool may_prepend =
      self.scheme == split_stage::prepend::always || (self.scheme == split_stage::prepend::first && first);
  if (may_prepend && piece.front() != ' ' && !piece.starts_with(self.replacement))
    text.append(self.replacement);
  for (const char c : piece) {
    if (c == ' ') {
      text.append(self.replacement);
    } else {
      text.push_back(c);
    }
  }
  if (self.splits) {
    split(index, text, first);
  } else {
    stage(index + 1, text, first);
  }
}

}  // namespace yolk::model
