#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "scheduling/placement_policies.hpp"
#include "scheduling/prefill_plan.hpp"

namespace yolk::scheduling {

namespace {

/// Least predicted TTFT, where a pull overlaps the queue, plus what the prompt costs others: its compute
/// delays whoever comes while the workers are busy. Of a work of c seconds, each of those who arrive on the
/// same worker until its queue is empty waits c longer; how many they are follows from the rate of arrivals.
class yolk_placement final : public placement_policy {
 public:
  explicit yolk_placement(const placement_options&) {}
  [[nodiscard]] std::string_view name() const override { return "yolk"; }

  std::optional<placement> place(const placement_request& request, const cluster_view& view) override {
    if (!can_place(view)) return std::nullopt;
    observe_arrival(request.now_seconds);
    const remote_holders remote(view);
    const double rate = arrivals_per_second_ / static_cast<double>(view.prefill.size());
    const prefill_candidate* chosen = nullptr;
    prefill_plan chosen_plan;
    double chosen_cost = std::numeric_limits<double>::infinity();
    for (const prefill_candidate& candidate : view.prefill) {
      const prefill_plan plan = plan_cheapest(request.prompt_tokens, candidate, view, remote);
      const double ttft = overlapped_ttft_seconds(candidate, plan);
      const double cost = ttft + rate * ttft * plan.compute_seconds;
      if (chosen != nullptr && std::tuple(chosen_cost, chosen->worker) <= std::tuple(cost, candidate.worker))
        continue;
      chosen = &candidate;
      chosen_plan = plan;
      chosen_cost = cost;
    }
    return placement_of(request, view, *chosen, chosen_plan);
  }

 private:
  /// Weighted over about so many seconds of the past.
  static constexpr double memory_seconds = 60.0;

  void observe_arrival(double now_seconds) {
    if (!began_) began_ = last_ = now_seconds;
    // Arrivals within the memory, counted with a weight that fades; early on, over the time there was.
    const double gap = std::max(0.0, now_seconds - last_);
    last_ = std::max(last_, now_seconds);
    weight_ = weight_ * std::exp(-gap / memory_seconds) + 1.0;
    const double seen = memory_seconds * (1.0 - std::exp(-(last_ - *began_) / memory_seconds));
    arrivals_per_second_ = seen > 1.0 ? weight_ / seen : 0.0;
  }

  std::optional<double> began_;
  double last_ = 0.0;
  double weight_ = 0.0;
  double arrivals_per_second_ = 0.0;
};

}  // namespace

std::unique_ptr<placement_policy> make_yolk_placement(const placement_options& options) {
  return std::make_unique<yolk_placement>(options);
}

}  // namespace yolk::scheduling
