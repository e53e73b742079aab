#include "actors/http_gateway/choice.hpp"

#include <algorithm>
#include <utility>

#include "actors/conversions.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

namespace {

bool contains(const std::vector<core::token_id>& ids, core::token_id id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

choice::choice(choice_options options, std::shared_ptr<const model::tokenizer> tokens)
    : options_(std::move(options)),
      tokens_(tokens),
      text_(std::move(tokens), {.stop = options_.stop,
                                .include_stop = options_.include_stop,
                                .skip_special_tokens = options_.skip_special_tokens}) {}

std::size_t choice::accept(const messages::token_batch& batch) {
  if (finished()) return 0;
  const std::uint32_t first = batch.read()->getFirstIndex();
  if (first > generated_.size()) {
    early_.emplace(first, batch);
    return 0;
  }
  std::size_t taken = take(batch);
  // What had overtaken this batch follows now. Taken out first: the end of the choice forgets the rest.
  while (!early_.empty() && early_.begin()->first <= generated_.size()) {
    const auto next = early_.extract(early_.begin());
    taken += take(next.mapped());
  }
  return taken;
}

std::size_t choice::take(const messages::token_batch& batch) {
  const auto view = batch.read();
  const auto tokens = view->getTokens();
  const std::size_t known = generated_.size() - view->getFirstIndex();
  if (known > tokens.size()) return 0;
  const auto end = view->getFinish();
  std::size_t taken = 0;
  for (auto i = static_cast<unsigned>(known); i < tokens.size() && !finished(); ++i, ++taken) {
    const bool last = i + 1 == tokens.size();
    take_token(sampled_of(tokens[i]), last && end == schema::TokenBatch::Finish::STOP);
  }
  if (!finished() && end == schema::TokenBatch::Finish::STOP) finish("stop");
  if (!finished() && end == schema::TokenBatch::Finish::LENGTH) finish("length");
  return taken;
}

void choice::take_token(const core::sampled_token& token, bool ends_the_choice) {
  generated_.push_back(token.token);
  if (ends_the_choice && is_hidden_end(token.token)) return;
  untold_ += text_.push(token.token);
  if (options_.logprobs) untold_logprobs_.push_back(describe(token));
  if (text_.stopped()) finish("stop");
}

bool choice::is_hidden_end(core::token_id token) const {
  if (contains(options_.stop_token_ids, token)) return !options_.include_stop;
  return contains(options_.end_tokens, token);
}

void choice::finish(std::string reason) {
  finish_reason_ = std::move(reason);
  early_.clear();
  untold_ += text_.finish();
}

void choice::finish_if_complete() {
  if (!finished() && generated_.size() >= options_.max_tokens) finish("length");
}

std::optional<choice_delta> choice::take_delta() {
  if (told_finish_ || (untold_.empty() && !finished())) return std::nullopt;
  choice_delta delta{.choice = options_.index,
                     .text = std::exchange(untold_, {}),
                     .logprobs = std::exchange(untold_logprobs_, {}),
                     .finished = finished(),
                     .finish_reason = finish_reason_};
  if (text_.stopped()) delta.stop_string = text_.stop_string();
  told_finish_ = finished();
  return delta;
}

http::token_logprob choice::describe(const core::sampled_token& token) const {
  http::token_logprob shown{.token = tokens_->piece(token.token, false), .logprob = token.logprob};
  for (const auto& [rival, logprob] : token.top)
    shown.top.emplace_back(tokens_->piece(rival, false), logprob);
  return shown;
}

}  // namespace yolk::actors
