#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "scheduling/placement_policies.hpp"
#include "scheduling/prefill_plan.hpp"

namespace yolk::scheduling {

namespace {

/// What one prompt left behind in the window.
struct past_request {
  double at_seconds = 0.0;
  core::worker_id worker;
  double service_seconds = 0.0;
  std::uint32_t miss_tokens = 0;
  std::uint64_t leaf = 0;  ///< its last prefix id
};

/// TTFT of the prompts that ended in one prefix, in the earlier and the recent half of the window.
struct prefix_latency {
  double half_began = 0.0;
  double earlier_sum = 0.0, recent_sum = 0.0;
  std::uint32_t earlier_count = 0, recent_count = 0;
};

/// Preble's E2 (ICLR'25): exploit the longest prefix while it is longer than what is left to compute, else
/// explore by L + M + P: load of the window, what an eviction would cost, and the prompt itself. Prefill
/// workers do not decode here, so the decode parts of L and the choice of the most decode-heavy worker fall
/// away.
class preble_placement final : public placement_policy {
 public:
  explicit preble_placement(const placement_options& options)
      : window_seconds_(options.window_seconds), rebalance_ratio_(options.rebalance_ratio) {}
  [[nodiscard]] std::string_view name() const override { return "preble"; }
  [[nodiscard]] bool reads_prefix() const override { return true; }

  std::optional<placement> place(const placement_request& request, const cluster_view& view) override {
    if (!can_place(view)) return std::nullopt;
    forget_before(request.now_seconds - window_seconds_);
    const prefill_candidate& chosen = choose(request, view);
    const prefill_plan plan = plan_on_node(request.prompt_tokens, chosen, view);
    remember({.at_seconds = request.now_seconds,
              .worker = chosen.worker,
              .service_seconds = plan.compute_seconds,
              .miss_tokens = request.prompt_tokens - plan.reused_tokens,
              .leaf = request.prefix_ids.empty() ? 0 : request.prefix_ids.back()});
    return placement_of(request, view, chosen, plan);
  }

  void first_token(core::worker_id, std::uint64_t last_prefix_id, double ttft_seconds,
                   double now_seconds) override {
    if (latencies_.size() >= max_watched && !latencies_.contains(last_prefix_id)) latencies_.clear();
    auto& latency = latencies_[last_prefix_id];
    if (now_seconds - latency.half_began > window_seconds_ / 2) {
      latency = {.half_began = now_seconds,
                 .earlier_sum = latency.recent_sum,
                 .earlier_count = latency.recent_count};
    }
    latency.recent_sum += ttft_seconds;
    ++latency.recent_count;
  }

 private:
  static constexpr std::size_t max_history = 1 << 16;
  static constexpr std::size_t max_watched = 4096;
  static constexpr std::size_t max_evictions_read = 64;
  static constexpr std::uint32_t arming_requests = 50;  // a worker
  static constexpr double slow_ratio = 2.0;

  const prefill_candidate& choose(const placement_request& request, const cluster_view& view) {
    const prefill_candidate* longest = nullptr;
    std::tuple<double, double, core::worker_id> longest_rank;
    for (const prefill_candidate& candidate : view.prefill) {
      const auto plan = plan_on_node(request.prompt_tokens, candidate, view);
      const std::tuple rank(-static_cast<double>(plan.reused_tokens), load_[candidate.worker],
                            candidate.worker);
      if (longest != nullptr && longest_rank <= rank) continue;
      longest = &candidate;
      longest_rank = rank;
    }
    const double hit = -std::get<0>(longest_rank);
    const double miss = request.prompt_tokens - hit;
    if (hit <= miss) return explore(request, view);
    const prefill_candidate& lightest = *std::ranges::min_element(
        view.prefill, {}, [this](const auto& c) { return std::tuple(load_[c.worker], c.worker); });
    if (overloaded(*longest, lightest, view) || is_slow(request)) return lightest;
    return *longest;
  }

  const prefill_candidate& explore(const placement_request& request, const cluster_view& view) {
    const prefill_candidate* best = nullptr;
    std::tuple<double, core::worker_id> best_rank;
    for (const prefill_candidate& candidate : view.prefill) {
      const auto plan = plan_on_node(request.prompt_tokens, candidate, view);
      const double cost =
          load_[candidate.worker] + eviction_seconds(request, candidate, view, plan) + plan.compute_seconds;
      const std::tuple rank(cost, candidate.worker);
      if (best != nullptr && best_rank <= rank) continue;
      best = &candidate;
      best_rank = rank;
    }
    return *best;
  }

  /// M: what was computed there longest ago goes first, and is computed again as often as it was asked for.
  double eviction_seconds(const placement_request& request, const prefill_candidate& candidate,
                          const cluster_view& view, const prefill_plan& plan) const {
    const prefix_holder* near = holder_on_node(candidate, view);
    const std::uint64_t needed = request.prompt_tokens - plan.reused_tokens;
    std::uint64_t freed = near == nullptr ? needed : near->free_tokens;
    double cost = 0.0;
    std::size_t read = 0;
    for (const past_request& past : history_) {
      if (freed >= needed || ++read > max_evictions_read) break;
      if (past.worker != candidate.worker) continue;
      freed += past.miss_tokens;
      const auto found = uses_.find(past.leaf);
      const double share = found == uses_.end() ? 0.0 : found->second / static_cast<double>(history_.size());
      cost += past.service_seconds * share;
    }
    return cost;
  }

  bool overloaded(const prefill_candidate& heavy, const prefill_candidate& light, const cluster_view& view) {
    return history_.size() >= arming_requests * view.prefill.size() &&
           load_[heavy.worker] > rebalance_ratio_ * load_[light.worker];
  }

  /// Prompts with this prefix wait twice as long as before: one more worker gets it.
  bool is_slow(const placement_request& request) {
    if (request.prefix_ids.empty()) return false;
    const auto found = latencies_.find(request.prefix_ids.back());
    if (found == latencies_.end()) return false;
    prefix_latency& latency = found->second;
    if (latency.earlier_count == 0 || latency.recent_count == 0) return false;
    const bool slow =
        latency.recent_sum / latency.recent_count >= slow_ratio * latency.earlier_sum / latency.earlier_count;
    if (slow) latency = {.half_began = request.now_seconds};
    return slow;
  }

  void remember(const past_request& past) {
    if (history_.size() >= max_history) forget_first();
    history_.push_back(past);
    load_[past.worker] += past.service_seconds;
    uses_[past.leaf] += 1;
  }

  void forget_first() {
    const past_request& past = history_.front();
    load_[past.worker] -= past.service_seconds;
    if (const auto found = uses_.find(past.leaf); --found->second == 0) uses_.erase(found);
    history_.pop_front();
    if (history_.empty()) load_.clear();  // what rounding left
  }

  void forget_before(double seconds) {
    while (!history_.empty() && history_.front().at_seconds < seconds) forget_first();
  }

  double window_seconds_;
  double rebalance_ratio_;
  std::deque<past_request> history_;  // oldest first
  std::map<core::worker_id, double> load_;
  std::unordered_map<std::uint64_t, std::uint32_t> uses_;  // of a leaf, within the history
  std::unordered_map<std::uint64_t, prefix_latency> latencies_;
};

}  // namespace

std::unique_ptr<placement_policy> make_preble_placement(const placement_options& options) {
  return std::make_unique<preble_placement>(options);
}

}  // namespace yolk::scheduling
