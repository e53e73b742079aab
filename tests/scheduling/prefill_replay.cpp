#include "tests/scheduling/prefill_replay.hpp"

#include <algorithm>
#include <list>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>

#include "core/random.hpp"
#include "scheduling/queue_estimate.hpp"

namespace yolk::tests {

using namespace scheduling;

namespace {

/// Least recently used.
class block_cache {
 public:
  explicit block_cache(std::uint64_t capacity) : capacity_(capacity) {}
  [[nodiscard]] std::uint32_t leading(const std::vector<std::uint32_t>& ids) const {
    std::uint32_t count = 0;
    while (count < ids.size() && where_.contains(ids[count])) ++count;
    return count;
  }
  void use(const std::vector<std::uint32_t>& ids) {
    for (const std::uint32_t id : ids) {
      const auto [found, fresh] = where_.try_emplace(id);
      if (!fresh) recent_.erase(found->second);
      recent_.push_back(id);
      found->second = std::prev(recent_.end());
      if (where_.size() <= capacity_) continue;
      where_.erase(recent_.front());
      recent_.pop_front();
    }
  }
  [[nodiscard]] std::uint64_t free_blocks() const { return capacity_ - where_.size(); }

 private:
  std::uint64_t capacity_;
  std::list<std::uint32_t> recent_;  // least recent first
  std::unordered_map<std::uint32_t, std::list<std::uint32_t>::iterator> where_;
};

struct node {
  block_cache cache;
  queue_estimate queue;
  double free_at = 0.0;
  std::uint64_t queued_tokens = 0;
};

struct ending {
  double at = 0.0;
  std::uint32_t node = 0;
  std::uint64_t request = 0;
  std::uint32_t computed_tokens = 0;
  double ttft = 0.0;
  friend bool operator>(const ending& a, const ending& b) {
    return std::tie(a.at, a.request) > std::tie(b.at, b.request);
  }
};

class replay {
 public:
  replay(const std::vector<traced_request>& requests, std::string_view policy, const replay_options& options)
      : requests_(requests),
        options_(options),
        policy_(std::move(make_placement_policy(policy, options.placement)).value()),
        latency_(coefficients(options), {}) {
    for (std::uint32_t i = 0; i < options.nodes; ++i)
      nodes_.push_back({.cache = block_cache(options.cache_blocks), .queue = {}});
  }

  replay_outcome run() {
    core::random_source random(options_.seed);
    std::vector<std::pair<double, std::uint64_t>> arrivals;
    for (std::uint64_t i = 0; i < requests_.size(); ++i) {
      const double jitter = static_cast<double>(random() >> 11) * 0x1p-53 * options_.jitter_seconds;
      arrivals.emplace_back((requests_[i].arrival_seconds + jitter) / options_.speed_up, i);
    }
    std::ranges::sort(arrivals);
    for (const auto& [at, request] : arrivals) {
      end_until(at);
      place_held(at);
      if (place(request, at, {.arrival_seconds = at})) continue;
      held_.insert({hold_key(at, least_seconds_, options_.placement), request, at});
    }
    end_until(1e300);
    std::ranges::sort(outcome_.ttft_seconds);
    outcome_.mean_seconds = std::accumulate(outcome_.ttft_seconds.begin(), outcome_.ttft_seconds.end(), 0.0) /
                            static_cast<double>(outcome_.ttft_seconds.size());
    outcome_.hit_ratio = reused_tokens_ / all_tokens_;
    outcome_.pulled_share = pulled_ / static_cast<double>(requests_.size());
    return std::move(outcome_);
  }

 private:
  static latency_coefficients coefficients(const replay_options& options) {
    auto made = a800_llama3_70b();
    if (options.link_bytes_per_second > 0)
      made.links[static_cast<std::size_t>(link_path::network)].bytes_per_second =
          options.link_bytes_per_second;
    return made;
  }

  void end_until(double now) {
    while (!endings_.empty() && endings_.top().at <= now) {
      const ending ended = endings_.top();
      endings_.pop();
      node& at = nodes_[ended.node];
      const auto& ids = requests_[ended.request].block_ids;
      at.queue.left(ended.request, ended.at);
      at.queued_tokens -= ended.computed_tokens;
      at.cache.use(ids);
      outcome_.ttft_seconds.push_back(ended.ttft);
      policy_->first_token({ended.node}, ids.back(), ended.ttft, ended.at);
      place_held(ended.at);
    }
  }

  void place_held(double now) {
    while (!held_.empty()) {
      const auto [key, request, arrival] = *held_.begin();
      if (!place(request, now, {.arrival_seconds = arrival})) return;
      held_.erase(held_.begin());
    }
  }

  struct arrival {
    double arrival_seconds = 0.0;
  };

  /// False when the policy would hold it.
  bool place(std::uint64_t number, double now, arrival since) {
    const traced_request& request = requests_[number];
    std::vector<prefill_candidate> candidates;
    std::vector<prefix_holder> holders;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const node& at = nodes_[i];
      candidates.push_back({.worker = {i},
                            .at = {.node = i},
                            .queue_seconds = at.queue.seconds(now),
                            .queued_requests = static_cast<std::uint32_t>(at.queue.size()),
                            .queued_tokens = at.queued_tokens});
      const std::uint32_t there =
          std::min(at.cache.leading(request.block_ids) * trace_block_tokens, request.input_tokens - 1);
      if (there > 0)
        holders.push_back({.holder = {1000 + i},
                           .at = {.node = i},
                           .cached_tokens = there,
                           .free_tokens = at.cache.free_blocks() * trace_block_tokens});
    }
    const decode_candidate decode{.worker = {9999}, .free_tokens = 1u << 30};
    const std::vector<std::uint64_t> ids(request.block_ids.begin(), request.block_ids.end());
    const auto where = policy_->place(
        {.number = number,
         .prompt_tokens = request.input_tokens,
         .now_seconds = now,
         .prefix_ids = ids,
         .block_tokens = trace_block_tokens},
        {.prefill = candidates, .holders = holders, .decode = {&decode, 1}, .latency = &latency_});
    if (!where) {
      std::uint32_t longest = 0;
      for (const prefix_holder& holder : holders) longest = std::max(longest, holder.cached_tokens);
      least_seconds_ = latency_.prefill_seconds({request.input_tokens, longest});
      return false;
    }
    node& at = nodes_[where->prefill.value];
    double transfer = 0.0;
    if (where->source && where->source->value != 1000 + where->prefill.value) {
      transfer = latency_.transfer_seconds(latency_.kv_bytes(where->source_tokens), link_path::network);
      pulled_ += 1;
    }
    const double service = latency_.prefill_seconds({request.input_tokens, where->reused_tokens});
    at.free_at = std::max(at.free_at, now + transfer) + service;
    at.queue.placed(number, where->service_seconds, now);
    const std::uint32_t computed = request.input_tokens - where->reused_tokens;
    at.queued_tokens += computed;
    reused_tokens_ += where->reused_tokens;
    all_tokens_ += request.input_tokens;
    endings_.push({.at = at.free_at,
                   .node = where->prefill.value,
                   .request = number,
                   .computed_tokens = computed,
                   .ttft = at.free_at - since.arrival_seconds});
    return true;
  }

  const std::vector<traced_request>& requests_;
  replay_options options_;
  std::unique_ptr<placement_policy> policy_;
  corrected_model latency_;
  std::vector<node> nodes_;
  std::priority_queue<ending, std::vector<ending>, std::greater<>> endings_;
  replay_outcome outcome_;
  std::set<std::tuple<double, std::uint64_t, double>> held_;  // key, request, arrival
  double least_seconds_ = 0.0;                                // prefill of the last one that was held
  double reused_tokens_ = 0.0;
  double all_tokens_ = 0.0;
  double pulled_ = 0.0;
};

}  // namespace

double replay_outcome::percentile(double share) const {
  const auto last = static_cast<double>(ttft_seconds.size() - 1);
  return ttft_seconds[static_cast<std::size_t>(share * last)];
}

replay_outcome replay_prefill(const std::vector<traced_request>& requests, std::string_view policy,
                              const replay_options& options) {
  return replay(requests, policy, options).run();
}

}  // namespace yolk::tests
