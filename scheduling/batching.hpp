#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduling/latency_model.hpp"

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

/// What limits a step that decodes and computes prompts at once.
struct step_target {
  double tbt_seconds = 0.1;
  std::uint32_t tile_tokens = 64;  ///< the budget is a multiple of it: a kernel computes whole tiles
  std::uint32_t most_tokens = 8192;
};

/// The prompt tokens that a step may compute beside its decodes so that all of it takes no longer than the
/// target (Sarathi-Serve's token budget, less the decodes). `context_tokens`: what lies before the chunk in
/// its prompt. At least one tile, so that prompts get on however late the decodes are.
std::uint32_t chunk_budget(const step_target& target, decode_shape decodes, std::uint32_t context_tokens,
                           const latency_model& latency);

/// Whether a prompt is better computed by the decode worker itself, within its steps, than by a prefill
/// worker: when what is uncached fits into one step's budget, so that nobody waits longer and nothing moves
/// (Mooncake inlines so; Splitwise's mixed machines).
bool prefill_inline(const step_target& target, decode_shape decodes, prefill_shape prompt,
                    const latency_model& latency);

}  // namespace yolk::scheduling
