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

struct decoding {
  std::uint64_t request = 0;
  std::uint32_t left_tokens = 0;
  double last_token_at = 0.0;
  double ttft = 0.0;
  std::vector<float> gaps;
};

struct decode_node {
  std::vector<decoding> batch;  // in the step that runs
  std::vector<decoding> joining;
  std::uint64_t context_tokens = 0;  // of the batch
  std::uint32_t placed_sequences = 0;
  std::uint64_t placed_tokens = 0;
  bool steps = false;
};

struct step_end {
  double at = 0.0;
  std::uint32_t node = 0;
  friend bool operator>(const step_end& a, const step_end& b) {
    return std::tie(a.at, a.node) > std::tie(b.at, b.node);
  }
};

struct ending {
  double at = 0.0;
  std::uint32_t node = 0;
  std::uint64_t request = 0;
  std::uint32_t computed_tokens = 0;
  double ttft = 0.0;
  std::uint32_t decode = 0;
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
    decode_.resize(std::max(options.decode_nodes, 1u));
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
      arrive(request, at);
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
    while (true) {
      const double prefill = endings_.empty() ? 1e301 : endings_.top().at;
      const double step = steps_.empty() ? 1e301 : steps_.top().at;
      if (std::min(prefill, step) > now) return;
      if (prefill <= step) {
        const ending ended = endings_.top();
        endings_.pop();
        end_prefill(ended);
      } else {
        const step_end ended = steps_.top();
        steps_.pop();
        end_step(ended);
      }
    }
  }

  void end_prefill(const ending& ended) {
    node& at = nodes_[ended.node];
    const auto& request = requests_[ended.request];
    at.queue.left(ended.request, ended.at);
    at.queued_tokens -= ended.computed_tokens;
    at.cache.use(request.block_ids);
    outcome_.ttft_seconds.push_back(ended.ttft);
    policy_->first_token({ended.node}, request.block_ids.back(), ended.ttft, ended.at);
    const placement where{.decode = {ended.decode}};
    if (options_.decode_nodes == 0) {
      leave_decode(ended.request, ended.decode);
    } else if (judge_after_prefill(options_.rule, slo_view_of(request, where, ended.at)).admitted()) {
      forecast_.decoding(ended.request, ended.at);
      decode_[ended.decode].joining.push_back({.request = ended.request,
                                               .left_tokens = request.output_tokens - 1,
                                               .last_token_at = ended.at,
                                               .ttft = ended.ttft,
                                               .gaps = {}});
      if (!decode_[ended.decode].steps) begin_step(ended.decode, ended.at);
    } else {
      ++outcome_.refused_late;
      forecast_.ended(ended.request, ended.at);
      leave_decode(ended.request, ended.decode);
    }
    place_held(ended.at);
  }

  void begin_step(std::uint32_t number, double now) {
    decode_node& at = decode_[number];
    for (auto& sequence : at.joining) {
      at.context_tokens += requests_[sequence.request].input_tokens;
      at.batch.push_back(std::move(sequence));
    }
    at.joining.clear();
    at.steps = !at.batch.empty();
    if (!at.steps) return;
    steps_.push(
        {now + latency_.decode_seconds({static_cast<std::uint32_t>(at.batch.size()), at.context_tokens}),
         number});
  }

  void end_step(const step_end& ended) {
    decode_node& at = decode_[ended.node];
    at.context_tokens += at.batch.size();
    for (auto& sequence : at.batch) {
      sequence.gaps.push_back(static_cast<float>(ended.at - sequence.last_token_at));
      sequence.last_token_at = ended.at;
      if (sequence.left_tokens-- > 1) continue;
      finish(sequence, ended);
    }
    std::erase_if(at.batch, [](const decoding& sequence) { return sequence.gaps.empty(); });
    begin_step(ended.node, ended.at);
    if (options_.rule == admission_rule::hold) place_held(ended.at);
  }

  void finish(decoding& sequence, const step_end& ended) {
    const traced_request& request = requests_[sequence.request];
    decode_[ended.node].context_tokens -= request.input_tokens + sequence.gaps.size();
    forecast_.ended(sequence.request, ended.at);
    leave_decode(sequence.request, ended.node);
    ++outcome_.finished;
    // TBT: the mean of the slowest tenth of the gaps.
    const std::size_t slowest = std::max<std::size_t>(sequence.gaps.size() / 10, 1);
    std::ranges::sort(sequence.gaps, std::greater<>());
    const double tbt = std::accumulate(sequence.gaps.begin(),
                                       sequence.gaps.begin() + static_cast<std::ptrdiff_t>(slowest), 0.0) /
                       static_cast<double>(slowest);
    const bool met = sequence.ttft <= options_.slo.ttft_seconds && tbt <= options_.slo.tbt_seconds;
    outcome_.met += met ? 1 : 0;
    sequence.gaps.clear();  // marks it for removal
  }

  void leave_decode(std::uint64_t request, std::uint32_t node) {
    --decode_[node].placed_sequences;
    decode_[node].placed_tokens -= requests_[request].input_tokens;
  }

  [[nodiscard]] slo_view slo_view_of(const traced_request& request, const placement& where,
                                     double now) const {
    return {.now_seconds = now,
            .slo = &options_.slo,
            .where = &where,
            .share = share_of(request),
            .held_before = held_before_,
            .decode_workers = static_cast<std::uint32_t>(decode_.size()),
            .forecast = &forecast_,
            .latency = &latency_};
  }

  /// With what is expected to be generated: what it will have added in the end.
  static decode_shape share_of(const traced_request& request) {
    return {1, request.input_tokens + placement_request{}.expected_output_tokens};
  }

  bool admit(std::uint64_t number, const placement& where, double now) {
    const bool admitted = judge_arrival(options_.rule, slo_view_of(requests_[number], where, now)).admitted();
    outcome_.refused_early += admitted ? 0 : 1;
    return admitted;
  }

  void arrive(std::uint64_t number, double now) {
    held_before_ = {};
    const auto where = choose(number, now, true);
    if (where && !must_hold(options_.rule, slo_view_of(requests_[number], *where, now))) {
      if (admit(number, *where, now)) start(number, *where, now, {.arrival_seconds = now});
      return;
    }
    auto later = *choose(number, now, false);
    const double key = hold_key(now, later.service_seconds, options_.placement);
    double before = 0.0;
    held_before_ = {};
    for (const auto& [other, request, arrival, service] : held_) {
      if (other > key) break;
      before += service;
      held_before_.sequences += 1;
      held_before_.context_tokens += share_of(requests_[request]).context_tokens;
    }
    later.predicted_ttft_seconds += before / static_cast<double>(nodes_.size());
    if (admit(number, later, now)) held_.insert({key, number, now, later.service_seconds});
  }

  void place_held(double now) {
    while (!held_.empty()) {
      const auto [key, request, arrival, service] = *held_.begin();
      const auto where = choose(request, now, true);
      if (!where || must_hold(options_.rule, slo_view_of(requests_[request], *where, now))) return;
      start(request, *where, now, {.arrival_seconds = arrival});
      held_.erase(held_.begin());
    }
  }

  struct since {
    double arrival_seconds = 0.0;
  };

  std::optional<placement> choose(std::uint64_t number, double now, bool may_hold) {
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
        holders.push_back({.holder = {holder_of_node + i},
                           .at = {.node = i},
                           .cached_tokens = there,
                           .free_tokens = at.cache.free_blocks() * trace_block_tokens});
    }
    std::vector<decode_candidate> decode;
    for (std::uint32_t i = 0; i < decode_.size(); ++i)
      decode.push_back({.worker = {i},
                        .at = {.node = 1000 + i},
                        .sequences = decode_[i].placed_sequences,
                        .context_tokens = decode_[i].placed_tokens,
                        .free_tokens = 1u << 30});
    const std::vector<std::uint64_t> ids(request.block_ids.begin(), request.block_ids.end());
    return policy_->place(
        {.number = number,
         .prompt_tokens = request.input_tokens,
         .now_seconds = now,
         .prefix_ids = ids,
         .block_tokens = trace_block_tokens,
         .may_hold = may_hold},
        {.prefill = candidates, .holders = holders, .decode = decode, .latency = &latency_});
  }

  void start(std::uint64_t number, const placement& where, double now, since begin) {
    const traced_request& request = requests_[number];
    node& at = nodes_[where.prefill.value];
    double transfer = 0.0;
    if (where.source && where.source->value != holder_of_node + where.prefill.value) {
      transfer = latency_.transfer_seconds(latency_.kv_bytes(where.source_tokens), link_path::network);
      pulled_ += 1;
    }
    const double service = latency_.prefill_seconds({request.input_tokens, where.reused_tokens});
    at.free_at = std::max(at.free_at, now + transfer) + service;
    at.queue.placed(number, where.service_seconds, now);
    const std::uint32_t computed = request.input_tokens - where.reused_tokens;
    at.queued_tokens += computed;
    reused_tokens_ += where.reused_tokens;
    all_tokens_ += request.input_tokens;
    ++decode_[where.decode.value].placed_sequences;
    decode_[where.decode.value].placed_tokens += request.input_tokens;
    forecast_.placed(number, where.decode, share_of(request), at.free_at);
    endings_.push({.at = at.free_at,
                   .node = where.prefill.value,
                   .request = number,
                   .computed_tokens = computed,
                   .ttft = at.free_at - begin.arrival_seconds,
                   .decode = where.decode.value});
  }

  static constexpr std::uint32_t holder_of_node = 1000;

  const std::vector<traced_request>& requests_;
  replay_options options_;
  std::unique_ptr<placement_policy> policy_;
  corrected_model latency_;
  std::vector<node> nodes_;
  std::vector<decode_node> decode_;
  decode_forecast forecast_;
  decode_shape held_before_;  // of the arrival that is judged
  std::priority_queue<step_end, std::vector<step_end>, std::greater<>> steps_;
  std::priority_queue<ending, std::vector<ending>, std::greater<>> endings_;
  replay_outcome outcome_;
  std::set<std::tuple<double, std::uint64_t, double, double>> held_;  // key, request, arrival, service
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
