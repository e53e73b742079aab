#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace yolk::scheduling {

struct pending_prefill {
  std::uint32_t remaining_tokens = 0;  ///< uncached tokens still to compute
};

struct chunk {
  std::uint32_t index = 0;        ///< into the pending list
  std::uint32_t token_count = 0;  ///< > 0
};

/// One prefill step: fills `token_budget` in order of arrival, several short prompts packed, the last one cut
/// where the budget ends (Sarathi-Serve, OSDI'24). Never empty while something is pending.
std::vector<chunk> form_prefill_batch(std::span<const pending_prefill> pending, std::uint32_t token_budget,
                                      std::uint32_t max_slices);

}  // namespace yolk::scheduling
