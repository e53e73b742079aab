#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "core/sampling_params.hpp"

namespace yolk::model {

/// Chooses a sequence's next tokens. The draw for the token at absolute index i of (prompt + generated) is a pure
/// function of (seed, i), so a resumed sequence goes on as it would have. Owned by one sequence; used by one thread
/// at a time.
class sampler {
 public:
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
  core::sampling_params params_;
  std::vector<core::token_id> end_tokens_;
  std::size_t vocabulary_size_;
  std::size_t length_;            ///< prompt + generated
  std::size_t generated_ = 0;
  std::vector<std::uint32_t> generated_counts_;  ///< per token id; empty when no penalty needs it
  std::vector<bool> seen_;                       ///< prompt or generated; empty when no penalty needs it
  std::vector<std::uint32_t> scratch_;
};

}  // namespace yolk::model
