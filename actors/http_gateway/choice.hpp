#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/sampling_params.hpp"
#include "http/generation_response.hpp"
#include "messages/interfaces.hpp"
#include "model/loaded_model.hpp"
#include "model/text_stream.hpp"

namespace yolk::actors {

/// What a choice has to say since it was last asked.
struct choice_delta {
  std::uint32_t choice = 0;
  std::string text;
  std::vector<http::token_logprob> logprobs;
  bool finished = false;
  std::string finish_reason;               ///< "stop" or "length", once finished
  std::optional<std::string> stop_string;  ///< the one that ended it
};

struct choice_options {
  std::uint32_t index = 0;   ///< within the client's request
  std::uint32_t prompt = 0;  ///< which prompt it continues
  std::uint64_t seed = 0;
  std::uint32_t max_tokens = 0;
  bool include_stop = false;
  bool skip_special_tokens = true;
  bool logprobs = false;
  std::vector<std::string> stop;
  std::vector<core::token_id> end_tokens;      ///< the model's: never shown
  std::vector<core::token_id> stop_token_ids;  ///< the client's: shown when include_stop
};

/// One answer in the making: its tokens so far and how much of their text may be told. Owned by a session;
/// one thread.
class choice {
 public:
  choice(choice_options options, std::shared_ptr<const model::tokenizer> tokens);

  /// Takes a batch: late copies of known tokens are dropped, batches that overtook others wait for their
  /// turn. Returns the number of new tokens. Nothing is taken once the choice is finished.
  std::size_t accept(const messages::token_batch& batch);
  /// The text that became certain; empty when there is nothing to tell.
  std::optional<choice_delta> take_delta();

  [[nodiscard]] const choice_options& options() const { return options_; }
  [[nodiscard]] std::span<const core::token_id> generated() const { return generated_; }
  [[nodiscard]] bool finished() const { return !finish_reason_.empty(); }
  [[nodiscard]] const std::string& finish_reason() const { return finish_reason_; }
  /// It ended here, by a stop string: workers do not know.
  [[nodiscard]] bool stopped_by_text() const { return text_.stopped(); }
  /// Batches are here that came before earlier ones.
  [[nodiscard]] bool waits_for_tokens() const { return !early_.empty(); }
  /// They are more than a peer in order could cause: tokens were lost.
  [[nodiscard]] bool lost_tokens() const { return early_.size() > max_early_batches; }
  /// Before the choice is tried again: what had overtaken came from the old try.
  void forget_early() { early_.clear(); }
  /// Every token that was asked for is here although no one said so.
  void finish_if_complete();

 private:
  static constexpr std::size_t max_early_batches = 64;

  std::size_t take(const messages::token_batch& batch);
  void take_token(const core::sampled_token& token, bool ends_the_choice);
  [[nodiscard]] bool is_hidden_end(core::token_id token) const;
  void finish(std::string reason);
  [[nodiscard]] http::token_logprob describe(const core::sampled_token& token) const;

  choice_options options_;
  std::shared_ptr<const model::tokenizer> tokens_;
  model::text_stream text_;
  std::vector<core::token_id> generated_;
  std::map<std::uint32_t, messages::token_batch> early_;  ///< by first index
  std::string untold_;
  std::vector<http::token_logprob> untold_logprobs_;
  std::string finish_reason_;
  bool told_finish_ = false;
};

}  // namespace yolk::actors
