#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/ids.hpp"

namespace yolk::scheduling {

struct prefill_candidate {
  core::worker_id worker;
  std::uint64_t queued_tokens = 0;         ///< uncached tokens placed there and not yet computed
  std::uint32_t device_cached_tokens = 0;  ///< of this prompt, in the worker's own blocks
  std::uint32_t pool_cached_tokens = 0;    ///< of this prompt, in any cache shard that it can pull from
};

struct decode_candidate {
  core::worker_id worker;
  std::uint32_t running_sequences = 0;
  std::uint64_t context_tokens = 0;  ///< KV that its batch reads per step
  std::uint64_t free_tokens = 0;     ///< room in its block pool
};

struct placement_costs {
  double prefill_seconds_per_token = 1e-3;
  double pull_seconds_per_token = 1e-5;  ///< moving cached KV from a shard
};

struct placement {
  core::worker_id prefill;
  core::worker_id decode;
  double predicted_ttft_seconds = 0.0;
};

/// Queue, then the cheaper of computing what the worker's own blocks lack, or pulling that from a shard
/// first. A cached prefix counts up to the prompt's last token but one.
double predict_ttft_seconds(std::uint32_t prompt_tokens, const prefill_candidate& candidate,
                            const placement_costs& costs);

/// Longest prefix weighed against load: the prefill worker with the least predicted TTFT (queue + pull +
/// compute), the decode worker with the least context per step among those with room (any, when none has).
/// Ties go to the lowest id. Nothing when a list is empty.
std::optional<placement> place(std::uint32_t prompt_tokens, std::span<const prefill_candidate> prefill,
                               std::span<const decode_candidate> decode, const placement_costs& costs);

}  // namespace yolk::scheduling
