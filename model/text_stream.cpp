#include "model/text_stream.hpp"

#include <algorithm>
#include <utility>

#include "model/unicode_text.hpp"

namespace yolk::model {

namespace {

std::vector<std::uint32_t> fallbacks(const std::string& text) {
  std::vector<std::uint32_t> fallback(text.size() + 1, 0);
  for (std::size_t i = 1, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != text[k]) k = fallback[k];
    if (text[i] == text[k]) ++k;
    fallback[i + 1] = static_cast<std::uint32_t>(k);
  }
  return fallback;
}

}  // namespace

void text_stream::stop_matcher::take(char byte) {
  while (matched > 0 && (matched == text.size() || text[matched] != byte)) matched = fallback[matched];
  if (text[matched] == byte) ++matched;
}

text_stream::text_stream(std::shared_ptr<const tokenizer> tokens, text_stream_options options)
    : tokens_(std::move(tokens)), options_(std::move(options)) {
  for (const std::string& stop : options_.stop) {
    // Only text that can be sent can be met: what is ill-formed reads as the text's own replacement
    // characters.
    std::string text;
    if (utf8_append_lossy(text, stop) > 0) text.append(replacement_character);
    if (!text.empty()) matchers_.push_back({text, fallbacks(text), 0});
  }
}

std::string text_stream::push(core::token_id token) {
  if (stopped_ || (options_.skip_special_tokens && tokens_->is_special(token))) return {};
  tail_ += tokens_->piece(token, std::exchange(first_, false));
  return advance(false);
}

std::string text_stream::finish() {
  if (stopped_) return {};
  std::string text = advance(true);
  text += std::exchange(pending_, {});
  return text;
}

std::string text_stream::advance(bool at_end) {
  std::size_t at = pending_.size();
  const std::size_t cut = utf8_append_lossy(pending_, tail_);
  tail_.erase(0, tail_.size() - cut);
  if (at_end && !tail_.empty()) {
    pending_.append(replacement_character);
    tail_.clear();
  }
  for (; at < pending_.size(); ++at) {
    const stop_matcher* met = nullptr;
    for (stop_matcher& matcher : matchers_) {
      matcher.take(pending_[at]);
      const bool whole = matcher.matched == matcher.text.size();
      if (whole && (met == nullptr || matcher.text.size() > met->text.size())) met = &matcher;
    }
    if (met != nullptr) {
      stopped_ = true;
      matched_ = met->text;
      const std::size_t end = at + 1 - (options_.include_stop ? 0 : matched_.size());
      std::string text = pending_.substr(0, end);
      pending_.clear();
      tail_.clear();
      return text;
    }
  }
  std::size_t held = 0;
  for (const stop_matcher& matcher : matchers_) held = std::max(held, matcher.matched);
  std::string text = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, pending_.size() - held);
  return text;
}

bool text_stream::stopped() const {
  return stopped_;
}

const std::string& text_stream::stop_string() const {
  return matched_;
}

}  // namespace yolk::model
