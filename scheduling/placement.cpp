#include "scheduling/placement.hpp"

#include <algorithm>

namespace yolk::scheduling {

double predict_ttft_seconds(std::uint32_t prompt_tokens, const prefill_candidate& candidate,
                            const placement_costs& costs) {
  // The last token is computed in any case, so that logits exist.
  const std::uint32_t reusable = prompt_tokens > 0 ? prompt_tokens - 1 : 0;
  const std::uint32_t on_device = std::min(candidate.device_cached_tokens, reusable);
  const std::uint32_t in_pool = std::min(candidate.pool_cached_tokens, reusable);
  const double queue = static_cast<double>(candidate.queued_tokens) * costs.prefill_seconds_per_token;
  const double compute_rest = (prompt_tokens - on_device) * costs.prefill_seconds_per_token;
  if (in_pool <= on_device) return queue + compute_rest;
  const double pull = (in_pool - on_device) * costs.pull_seconds_per_token;
  const double compute_after_pull = (prompt_tokens - in_pool) * costs.prefill_seconds_per_token;
  return queue + std::min(compute_rest, pull + compute_after_pull);
}

namespace {

struct choice {
  core::worker_id worker;
  double ttft_seconds = 0.0;
};

choice choose_prefill(std::uint32_t prompt_tokens, std::span<const prefill_candidate> candidates,
                      const placement_costs& costs) {
  choice best{candidates.front().worker, predict_ttft_seconds(prompt_tokens, candidates.front(), costs)};
  for (const prefill_candidate& candidate : candidates.subspan(1)) {
    const double seconds = predict_ttft_seconds(prompt_tokens, candidate, costs);
    const bool better =
        seconds < best.ttft_seconds || (seconds == best.ttft_seconds && candidate.worker < best.worker);
    if (better) best = {candidate.worker, seconds};
  }
  return best;
}

core::worker_id choose_decode(std::uint32_t prompt_tokens, std::span<const decode_candidate> candidates) {
  // Room for the prompt and the first generated token.
  const std::uint64_t needed_tokens = std::uint64_t{prompt_tokens} + 1;
  const auto before = [&](const decode_candidate& a, const decode_candidate& b) {
    const bool a_has_room = a.free_tokens >= needed_tokens;
    const bool b_has_room = b.free_tokens >= needed_tokens;
    if (a_has_room != b_has_room) return a_has_room;
    if (a.context_tokens != b.context_tokens) return a.context_tokens < b.context_tokens;
    return a.worker < b.worker;
  };
  return std::ranges::min_element(candidates, before)->worker;
}

}  // namespace

std::optional<placement> place(std::uint32_t prompt_tokens, std::span<const prefill_candidate> prefill,
                               std::span<const decode_candidate> decode, const placement_costs& costs) {
  if (prefill.empty() || decode.empty()) return std::nullopt;
  const choice chosen = choose_prefill(prompt_tokens, prefill, costs);
  return placement{chosen.worker, choose_decode(prompt_tokens, decode), chosen.ttft_seconds};
}

}  // namespace yolk::scheduling
