#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/ids.hpp"

namespace yolk::core {

/// How the next token is chosen. Set by http/ from the client's JSON (validated there), carried by messages/,
/// obeyed by model/sampler. Defaults are OpenAI's, so that an empty object samples as OpenAI would.
struct sampling_params {
  float temperature = 1.0f;         ///< 0 = greedy (ties to the lowest id)
  float top_p = 1.0f;               ///< (0, 1]
  std::uint32_t top_k = 0;          ///< 0 = off
  float min_p = 0.0f;               ///< [0, 1]
  float repetition_penalty = 1.0f;  ///< > 0; over prompt and generated tokens (Keskar et al. 2019)
  float presence_penalty = 0.0f;    ///< [-2, 2]; over generated tokens
  float frequency_penalty = 0.0f;   ///< [-2, 2]; over generated tokens
  std::vector<std::pair<token_id, float>> logit_bias;  ///< added before anything else; [-100, 100]
  std::uint64_t seed = 0;                              ///< drawn by the gateway when the client sent none
  std::uint32_t max_tokens = 0;          ///< resolved by the gateway against the context; at least 1
  std::uint32_t min_tokens = 0;          ///< end tokens are not chosen before
  std::vector<token_id> stop_token_ids;  ///< beside the model's own end tokens
  bool ignore_eos = false;
  bool logprobs = false;           ///< whether each token's log probability is returned
  std::uint32_t top_logprobs = 0;  ///< 0..20 alternatives per token
};

/// A chosen token and, when asked for, what it and its rivals scored (natural logarithms, floor -9999).
struct sampled_token {
  token_id token = 0;
  float logprob = 0.0f;
  std::vector<std::pair<token_id, float>> top;
};

}  // namespace yolk::core
