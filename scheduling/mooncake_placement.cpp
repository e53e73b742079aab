#include <algorithm>
#include <limits>
#include <tuple>

#include "scheduling/placement_policies.hpp"
#include "scheduling/prefill_plan.hpp"

namespace yolk::scheduling {

namespace {

/// Algorithm 1 of Mooncake (FAST'25). What the paper leaves open is decided so:
/// - own length: the longer of the worker's device and the shards of its node; 0 makes the ratio infinite;
/// - a ratio equal to the threshold does not transfer (FAST's reading, not the arXiv report's);
/// - of several holders with the longest prefix: the fewest transfers, then the lowest id;
/// - transfer, queue and compute are summed, as printed; a running prompt counts with what is left of it;
/// - ties of TTFT go to the lowest id;
/// - select_decode is the least predicted TBT over the sequence's life.
class mooncake_placement final : public placement_policy {
 public:
  explicit mooncake_placement(const placement_options& options) : threshold_(options.balancing_threshold) {}
  [[nodiscard]] std::string_view name() const override { return "mooncake"; }

  std::optional<placement> place(const placement_request& request, const cluster_view& view) override {
    if (!can_place(view)) return std::nullopt;
    const prefix_holder* best_holder = nullptr;
    for (const prefix_holder& holder : view.holders)
      if (best_holder == nullptr || rank(holder) < rank(*best_holder)) best_holder = &holder;

    const prefill_candidate* chosen = nullptr;
    prefill_plan chosen_plan;
    double chosen_ttft = std::numeric_limits<double>::infinity();
    for (const prefill_candidate& candidate : view.prefill) {
      prefill_plan plan = plan_on_node(request.prompt_tokens, candidate, view);
      if (best_holder != nullptr && exceeds(best_holder->cached_tokens, plan.reused_tokens))
        plan = plan_from(request.prompt_tokens, candidate, best_holder, view);
      const double ttft = serial_ttft_seconds(candidate, plan);
      if (chosen != nullptr && std::tuple(chosen_ttft, chosen->worker) <= std::tuple(ttft, candidate.worker))
        continue;
      chosen = &candidate;
      chosen_plan = plan;
      chosen_ttft = ttft;
    }
    placement made = placement_of(request, view, *chosen, chosen_plan);
    made.predicted_ttft_seconds = chosen_ttft;
    return made;
  }

 private:
  static std::tuple<std::int64_t, std::uint32_t, core::worker_id> rank(const prefix_holder& holder) {
    return {-static_cast<std::int64_t>(holder.cached_tokens), holder.transfers, holder.holder};
  }
  [[nodiscard]] bool exceeds(std::uint32_t best, std::uint32_t own) const {
    return static_cast<double>(best) > threshold_ * own;
  }

  double threshold_;
};

}  // namespace

std::unique_ptr<placement_policy> make_mooncake_placement(const placement_options& options) {
  return std::make_unique<mooncake_placement>(options);
}

}  // namespace yolk::scheduling
