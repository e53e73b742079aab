#include "scheduling/batching.hpp"

#include <algorithm>

namespace yolk::scheduling {

std::vector<chunk> form_prefill_batch(std::span<const pending_prefill> pending, std::uint32_t token_budget,
                                      std::uint32_t max_slices) {
  std::vector<chunk> batch;
  // A budget of nothing would stall everything that waits: at least one token of one prompt.
  std::uint32_t left = std::max(token_budget, 1u);
  const std::size_t slices = std::max(max_slices, 1u);
  for (std::size_t index = 0; index < pending.size() && batch.size() < slices && left > 0; ++index) {
    const std::uint32_t token_count = std::min(pending[index].remaining_tokens, left);
    if (token_count == 0) continue;
    batch.push_back({static_cast<std::uint32_t>(index), token_count});
    left -= token_count;
  }
  return batch;
}

std::uint32_t chunk_budget(const step_target& target, decode_shape decodes, std::uint32_t context_tokens,
                           const latency_model& latency) {
  const std::uint32_t tile = std::max(target.tile_tokens, 1u);
  const double decode = latency.decode_seconds(decodes);
  // The fixed part of a step is paid once: where there are decodes, it is in theirs.
  const double fixed = decodes.sequences > 0 ? latency.coefficients().prefill.base_seconds : 0.0;
  const auto fits = [&](std::uint32_t tiles) {
    const prefill_shape chunk{.prompt_tokens = context_tokens + tiles * tile,
                              .cached_tokens = context_tokens};
    const double cached = latency.coefficients().prefill.per_cached_token * context_tokens;
    return decode + latency.prefill_seconds(chunk) - fixed - cached <= target.tbt_seconds;
  };
  std::uint32_t least = 1;
  std::uint32_t most = std::max(target.most_tokens / tile, 1u);
  while (least < most) {
    const std::uint32_t middle = least + (most - least + 1) / 2;
    if (fits(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least * tile;
}

bool prefill_inline(const step_target& target, decode_shape decodes, prefill_shape prompt,
                    const latency_model& latency) {
  if (prompt.cached_tokens >= prompt.prompt_tokens) return true;
  const double fixed = decodes.sequences > 0 ? latency.coefficients().prefill.base_seconds : 0.0;
  const double cached = latency.coefficients().prefill.per_cached_token * prompt.cached_tokens;
  const double step = latency.decode_seconds(decodes) + latency.prefill_seconds(prompt) - fixed - cached;
  return prompt.prompt_tokens - prompt.cached_tokens <= target.most_tokens && step <= target.tbt_seconds;
}

}  // namespace yolk::scheduling
