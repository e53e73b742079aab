#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "core/sampling_params.hpp"

namespace yolk::model {

/// Chooses a sequence's next tokens. The draw for the token at absolute index i of (prompt + generated) is a
/// pure function of (seed, i), so a resumed sequence goes on as it would have. Owned by one sequence; used by
/// one thread at a time.
///
/// Order: log probabilities are taken from the raw logits (as vLLM reports them); then logit_bias,
/// min_tokens, repetition, frequency and presence penalties, temperature, min_p, top_k, top_p, draw. A logit
/// that is NaN counts as −infinity, +infinity as the largest float.
class sampler {
 public:
  /// Below this temperature the choice is greedy: dividing by less would only overflow.
  static constexpr float greedy_below = 1e-5f;
  /// The floor of every log probability that is reported.
  static constexpr float lowest_logprob = -9999.0f;

  /// `history` is prompt plus tokens generated so far; `prompt_length` says where the generated ones begin.
  /// `end_tokens`: the model's, not to be chosen before min_tokens.
  sampler(core::sampling_params params, std::span<const core::token_id> history, std::size_t prompt_length,
          std::span<const core::token_id> end_tokens, std::size_t vocabulary_size);

  /// Chooses from logits [vocabulary_size] (which it may overwrite) and appends to the history.
  core::sampled_token sample(std::span<float> logits);
  /// Takes a token that was chosen elsewhere (the first one, by the prefill worker) into the history.
  void accept(core::token_id token);
  [[nodiscard]] std::size_t generated_count() const;

 private:
  struct candidate {
    float logit;
    core::token_id token;
    double weight;  ///< exp((logit − highest) / temperature)
  };

  void forbid_end_tokens(std::span<float> logits) const;
  void penalise(std::span<float> logits) const;
  void list_top_logprobs(std::span<const float> logits, double normaliser, core::sampled_token& out);
  core::token_id draw(std::span<const float> logits);
  void collect_candidates(std::span<const float> logits, float highest);
  std::size_t sort_until_mass(double wanted);

  core::sampling_params params_;
  std::vector<core::token_id> end_tokens_;
  std::size_t vocabulary_size_;
  std::size_t length_ = 0;  ///< prompt + generated
  std::size_t generated_ = 0;
  std::vector<std::uint32_t> generated_counts_;  ///< per token id; empty when no penalty needs it
  std::vector<bool> seen_;                       ///< prompt or generated; empty when no penalty needs it
  std::vector<candidate> candidates_;            ///< scratch of draw
  std::vector<core::token_id> order_;            ///< scratch of list_top_logprobs
  std::vector<float> raw_;                       ///< the untouched logits, where log probabilities are wanted
};

}  // namespace yolk::model
