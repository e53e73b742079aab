#include <algorithm>
#include <limits>
#include <tuple>

#include "scheduling/placement_policies.hpp"
#include "scheduling/prefill_plan.hpp"

namespace yolk::scheduling {

namespace {

/// Least predicted TTFT, the pull being made while the queue is worked off; of workers that are equally soon,
/// the one with the least to compute. A prompt is bound as late as can be: while all queues are longer than
/// hold_seconds it waits where every worker that becomes idle can take it, and short prompts go first
/// (hold_key). That is P/D-Serve's aim (arXiv 2408.08147) without its probes: a worker announces that it is
/// idle by the end of its prefill.
class yolk_placement final : public placement_policy {
 public:
  explicit yolk_placement(const placement_options& options) : hold_seconds_(options.hold_seconds) {}
  [[nodiscard]] std::string_view name() const override { return "yolk"; }

  std::optional<placement> place(const placement_request& request, const cluster_view& view) override {
    if (!can_place(view)) return std::nullopt;
    const auto has_time = [this](const prefill_candidate& candidate) {
      return candidate.queue_seconds <= hold_seconds_;
    };
    if (request.may_hold && std::ranges::none_of(view.prefill, has_time)) return std::nullopt;
    const remote_holders remote(view);
    const prefill_candidate* chosen = nullptr;
    prefill_plan chosen_plan;
    std::tuple<double, double, core::worker_id> chosen_rank;
    for (const prefill_candidate& candidate : view.prefill) {
      const prefill_plan plan = plan_cheapest(request.prompt_tokens, candidate, view, remote);
      const std::tuple rank(overlapped_ttft_seconds(candidate, plan), plan.compute_seconds, candidate.worker);
      if (chosen != nullptr && chosen_rank <= rank) continue;
      chosen = &candidate;
      chosen_plan = plan;
      chosen_rank = rank;
    }
    return placement_of(request, view, *chosen, chosen_plan);
  }

 private:
  double hold_seconds_;
};

}  // namespace

std::unique_ptr<placement_policy> make_yolk_placement(const placement_options& options) {
  return std::make_unique<yolk_placement>(options);
}

}  // namespace yolk::scheduling
