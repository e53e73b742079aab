#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "core/random.hpp"
#include "scheduling/placement_policies.hpp"
#include "scheduling/prefill_plan.hpp"

namespace yolk::scheduling {

namespace {

/// Uniform in [0, 1).
double draw(std::uint64_t seed, std::uint64_t number) {
  const auto words = core::philox(seed, number);
  return (static_cast<double>(words[0]) * 0x1p32 + words[1]) * 0x1p-64;
}

/// A policy that takes one of the candidates by a rule, and what that candidate's node has.
class node_local_policy : public placement_policy {
 public:
  std::optional<placement> place(const placement_request& request, const cluster_view& view) final {
    if (!can_place(view)) return std::nullopt;
    const prefill_candidate& chosen = choose(request, view);
    return placement_of(request, view, chosen, plan_on_node(request.prompt_tokens, chosen, view));
  }

 protected:
  virtual const prefill_candidate& choose(const placement_request& request, const cluster_view& view) = 0;

  /// The candidate with the least rank (a tuple whose last part is the worker's id).
  template <class Rank>
  static const prefill_candidate& least(const cluster_view& view, Rank rank_of) {
    const prefill_candidate* best = nullptr;
    decltype(rank_of(view.prefill.front())) best_rank{};
    for (const prefill_candidate& candidate : view.prefill) {
      auto rank = rank_of(candidate);
      if (best != nullptr && !(rank < best_rank)) continue;
      best = &candidate;
      best_rank = std::move(rank);
    }
    return *best;
  }

  static const prefill_candidate& nth(const cluster_view& view, std::size_t n) {
    std::vector<const prefill_candidate*> by_id;
    for (const prefill_candidate& candidate : view.prefill) by_id.push_back(&candidate);
    std::ranges::nth_element(by_id, by_id.begin() + static_cast<std::ptrdiff_t>(n), {},
                             [](const prefill_candidate* candidate) { return candidate->worker; });
    return *by_id[n];
  }
};

class random_placement final : public node_local_policy {
 public:
  explicit random_placement(const placement_options& options) : seed_(options.seed) {}
  [[nodiscard]] std::string_view name() const override { return "random"; }

 private:
  const prefill_candidate& choose(const placement_request& request, const cluster_view& view) override {
    const double at = draw(seed_, request.number) * static_cast<double>(view.prefill.size());
    return nth(view, std::min(static_cast<std::size_t>(at), view.prefill.size() - 1));
  }
  std::uint64_t seed_;
};

class round_robin_placement final : public node_local_policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "round_robin"; }

 private:
  const prefill_candidate& choose(const placement_request&, const cluster_view& view) override {
    // The next id after the last one, so that workers that come and go do not shift the turn.
    const auto& next = least(view, [this](const prefill_candidate& candidate) {
      return std::tuple(last_ && candidate.worker <= *last_, candidate.worker);
    });
    last_ = next.worker;
    return next;
  }
  std::optional<core::worker_id> last_;
};

class least_loaded_placement final : public node_local_policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "least_loaded"; }

 private:
  const prefill_candidate& choose(const placement_request&, const cluster_view& view) override {
    return least(view, [](const prefill_candidate& candidate) {
      return std::tuple(candidate.queue_seconds, candidate.queued_requests, candidate.worker);
    });
  }
};

class longest_prefix_placement final : public node_local_policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "longest_prefix"; }

 private:
  const prefill_candidate& choose(const placement_request& request, const cluster_view& view) override {
    return least(view, [&](const prefill_candidate& candidate) {
      const auto plan = plan_on_node(request.prompt_tokens, candidate, view);
      return std::tuple(-static_cast<double>(plan.reused_tokens), candidate.queue_seconds, candidate.worker);
    });
  }
};

class cache_aware_placement final : public node_local_policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "cache_aware"; }

 private:
  const prefill_candidate& choose(const placement_request& request, const cluster_view& view) override {
    return least(view, [&](const prefill_candidate& candidate) {
      const auto plan = plan_on_node(request.prompt_tokens, candidate, view);
      return std::tuple(overlapped_ttft_seconds(candidate, plan), candidate.worker);
    });
  }
};

class dynamo_placement final : public node_local_policy {
 public:
  explicit dynamo_placement(const placement_options& options)
      : seed_(options.seed), temperature_(options.temperature) {}
  [[nodiscard]] std::string_view name() const override { return "dynamo"; }

 private:
  static constexpr double host_weight = 0.75;

  const prefill_candidate& choose(const placement_request& request, const cluster_view& view) override {
    const auto cost = [&](const prefill_candidate& candidate) {
      const prefix_holder* near = holder_on_node(candidate, view);
      const double on_host = near == nullptr || near->cached_tokens <= candidate.device_cached_tokens
                                 ? 0.0
                                 : near->cached_tokens - candidate.device_cached_tokens;
      const double uncached = request.prompt_tokens - candidate.device_cached_tokens - host_weight * on_host;
      return (std::max(uncached, 0.0) + static_cast<double>(candidate.queued_tokens)) / request.block_tokens;
    };
    const auto& cheapest = least(view, [&](const prefill_candidate& candidate) {
      return std::tuple(cost(candidate), candidate.worker);
    });
    if (temperature_ <= 0.0) return cheapest;
    return softmax(request, view, cost);
  }

  template <class Cost>
  const prefill_candidate& softmax(const placement_request& request, const cluster_view& view, Cost cost) {
    std::vector<double> costs;
    for (const prefill_candidate& candidate : view.prefill) costs.push_back(cost(candidate));
    const auto [low, high] = std::ranges::minmax(costs);
    const double range = high > low ? high - low : 1.0;
    double sum = 0.0;
    for (double& c : costs) sum += c = std::exp(-(c - low) / range / temperature_);
    double left = draw(seed_, request.number) * sum;
    for (std::size_t i = 0; i < costs.size(); ++i)
      if ((left -= costs[i]) < 0.0) return view.prefill[i];
    return view.prefill.back();
  }

  std::uint64_t seed_;
  double temperature_;
};

class llm_d_placement final : public node_local_policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "llm_d"; }

 private:
  const prefill_candidate& choose(const placement_request& request, const cluster_view& view) override {
    const auto [shortest, longest] =
        std::ranges::minmax(view.prefill, {}, &prefill_candidate::queued_requests);
    const double most = longest.queued_requests;
    const double range = most - shortest.queued_requests;
    bool any_hit = false;
    const auto score = [&](const prefill_candidate& candidate) {
      const auto plan = plan_on_node(request.prompt_tokens, candidate, view);
      any_hit = any_hit || plan.reused_tokens > 0;
      const double queue = range > 0 ? (most - candidate.queued_requests) / range : 1.0;
      return 2.0 * plan.reused_tokens / std::max(request.prompt_tokens, 1u) + queue;
    };
    const auto& best = least(view, [&](const prefill_candidate& candidate) {
      return std::tuple(-score(candidate), last_cold_[candidate.worker], candidate.worker);
    });
    if (!any_hit) last_cold_[best.worker] = ++cold_;
    return best;
  }

  std::map<core::worker_id, std::uint64_t> last_cold_;  // one entry a worker that was ever seen
  std::uint64_t cold_ = 0;
};

}  // namespace

std::unique_ptr<placement_policy> make_random_placement(const placement_options& options) {
  return std::make_unique<random_placement>(options);
}
std::unique_ptr<placement_policy> make_round_robin_placement() {
  return std::make_unique<round_robin_placement>();
}
std::unique_ptr<placement_policy> make_least_loaded_placement() {
  return std::make_unique<least_loaded_placement>();
}
std::unique_ptr<placement_policy> make_longest_prefix_placement() {
  return std::make_unique<longest_prefix_placement>();
}
std::unique_ptr<placement_policy> make_cache_aware_placement() {
  return std::make_unique<cache_aware_placement>();
}
std::unique_ptr<placement_policy> make_dynamo_placement(const placement_options& options) {
  return std::make_unique<dynamo_placement>(options);
}
std::unique_ptr<placement_policy> make_llm_d_placement() {
  return std::make_unique<llm_d_placement>();
}

}  // namespace yolk::scheduling
