#pragma once

#include "scheduling/placement.hpp"

namespace yolk::scheduling {

/// How one candidate would get a prompt's prefix, and what that costs.
struct prefill_plan {
  const prefix_holder* source = nullptr;  ///< null: nothing is pulled
  std::uint32_t reused_tokens = 0;        ///< at most the prompt less its last token, so that logits exist
  double transfer_seconds = 0.0;
  double compute_seconds = 0.0;
};

/// Reuse of what is on the candidate's device and, beyond that, of what `source` has; null: of the device
/// alone.
prefill_plan plan_from(std::uint32_t prompt_tokens, const prefill_candidate& candidate,
                       const prefix_holder* source, const cluster_view& view);
/// The longest prefix in a shard of the candidate's own node; null when there is none. Ties to the lowest id.
const prefix_holder* holder_on_node(const prefill_candidate& candidate, const cluster_view& view);
/// Reuse of the device, and of a shard of the candidate's own node.
prefill_plan plan_on_node(std::uint32_t prompt_tokens, const prefill_candidate& candidate,
                          const cluster_view& view);

/// The holders from which a worker elsewhere might pull: no other has as much at as few transfers. At most
/// `capacity` of them, the longest prefixes. Made once a prompt, so that a cluster's candidates do not each
/// read the whole list of its holders.
class remote_holders {
 public:
  static constexpr std::size_t capacity = 4;
  explicit remote_holders(const cluster_view& view);
  [[nodiscard]] std::span<const prefix_holder* const> list() const { return {holders_.data(), count_}; }

 private:
  std::array<const prefix_holder*, capacity> holders_{};
  std::size_t count_ = 0;
};

/// The way with the least predicted TTFT, the pull being made while earlier prompts are computed; of ways
/// that are equally soon, the one with the least to compute, then the least to transfer.
prefill_plan plan_cheapest(std::uint32_t prompt_tokens, const prefill_candidate& candidate,
                           const cluster_view& view, const remote_holders& remote);

/// max(queue, transfer) + compute.
double overlapped_ttft_seconds(const prefill_candidate& candidate, const prefill_plan& plan);
/// queue + transfer + compute.
double serial_ttft_seconds(const prefill_candidate& candidate, const prefill_plan& plan);

/// The decode worker with the least predicted time between tokens over the sequence's life, of those with
/// room for the prompt and one token (of all, when none has); ties to the least context, then the lowest id.
/// The view's decode list must not be empty.
struct decode_choice {
  core::worker_id worker;
  double tbt_seconds = 0.0;
};
decode_choice choose_decode(const placement_request& request, const cluster_view& view);

/// What a policy's choice of a candidate and its plan amounts to, with the decode worker by choose_decode.
placement placement_of(const placement_request& request, const cluster_view& view,
                       const prefill_candidate& candidate, const prefill_plan& plan);

/// Whether anything can be placed at all.
inline bool can_place(const cluster_view& view) {
  return !view.prefill.empty() && !view.decode.empty();
}

}  // namespace yolk::scheduling
