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

}  // namespace yolk::scheduling
