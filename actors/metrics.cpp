#include "actors/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace yolk::actors {

namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using buckets = Histogram::BucketBoundaries;

// The boundaries that dashboards made for other servers expect.
const buckets first_token_buckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                     1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const buckets inter_token_buckets = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                     .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const buckets request_buckets = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const buckets step_buckets = {.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10};
const buckets step_token_buckets = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const buckets transfer_buckets = {.0001, .0002, .0005, .001, .002, .005, .01, .02,
                                  .05,   .1,    .2,    .5,   1,    2.5,  5};

/// Of the last worker of 1,024 nodes; ids beyond this share one series. A process has those of its own alone.
constexpr std::uint32_t max_shown_id = 1024 * 256 - 1;

constexpr std::array outcome_names = {"stop", "length", "cancelled", "refused", "invalid", "failed"};
constexpr std::array path_names = {"prefill_to_decode", "shard_to_prefill", "worker_to_shard"};
constexpr std::array step_names = {"prefill", "decode"};
constexpr std::array resume_reasons = {"workerLost", "preempted", "transferFailed", "peerLost",
                                       "unavailable"};
constexpr std::array actor_kinds = {"supervisor",     "http_gateway",  "admission_controller", "conductor",
                                    "prefill_worker", "decode_worker", "cache_shard"};
constexpr std::array tiers = {"device", "dram", "ssd"};
constexpr std::array ssd_event_names = {"restored", "saved",       "save_dropped", "save_failed",
                                        "read",     "read_failed", "check_failed", "reclaimed"};
constexpr std::array owners = {"prefill", "decode", "cache"};

double seconds(core::duration elapsed) {
  return std::chrono::duration<double>(elapsed).count();
}

template <std::size_t Size>
std::string known(const std::array<const char*, Size>& names, std::string_view name) {
  const bool found = std::find(names.begin(), names.end(), name) != names.end();
  return found ? std::string(name) : "other";
}

std::uint64_t whole(const Counter& counter) {
  return static_cast<std::uint64_t>(counter.Value());
}

/// The last thousand values, for quantiles of the recent past. Thread-safe.
class recent_values {
 public:
  void add(double value) {
    const std::lock_guard lock(mutex_);
    if (values_.size() < window)
      values_.push_back(value);
    else
      values_[next_] = value;
    next_ = (next_ + 1) % window;
  }

  [[nodiscard]] metrics::quantiles read() const {
    std::vector<double> sorted;
    {
      const std::lock_guard lock(mutex_);
      sorted = values_;
    }
    if (sorted.empty()) return {};
    std::sort(sorted.begin(), sorted.end());
    // Nearest rank: the smallest value that at least that share of all does not exceed.
    const auto at = [&](double share) {
      const auto rank = static_cast<std::size_t>(share * static_cast<double>(sorted.size()) + 0.9999999);
      return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
    };
    return {at(0.5), at(0.9), at(0.99)};
  }

 private:
  static constexpr std::size_t window = 1000;
  mutable std::mutex mutex_;
  std::vector<double> values_;
  std::size_t next_ = 0;
};

}  // namespace

struct metrics::registry {
  explicit registry(std::string_view model) : model_name(model) {}

  std::string model_name;
  prometheus::Registry all;

  prometheus::Family<Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter()
        .Name(name)
        .Help(help)
        .Labels({{"model_name", model_name}})
        .Register(all);
  }
  prometheus::Family<Gauge>& gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Labels({{"model_name", model_name}}).Register(all);
  }
  prometheus::Family<Histogram>& histograms(const char* name, const char* help) {
    return prometheus::BuildHistogram()
        .Name(name)
        .Help(help)
        .Labels({{"model_name", model_name}})
        .Register(all);
  }
  /// One series for each value of a label, made at the start: a record then looks nothing up.
  template <std::size_t Size>
  static std::array<Counter*, Size> each(prometheus::Family<Counter>& family, const char* label,
                                         const std::array<const char*, Size>& values) {
    std::array<Counter*, Size> made{};
    for (std::size_t i = 0; i < Size; ++i) made[i] = &family.Add({{label, values[i]}});
    return made;
  }
  template <std::size_t Size>
  static std::array<Histogram*, Size> each(prometheus::Family<Histogram>& family, const char* label,
                                           const std::array<const char*, Size>& values,
                                           const buckets& bounds) {
    std::array<Histogram*, Size> made{};
    for (std::size_t i = 0; i < Size; ++i) made[i] = &family.Add({{label, values[i]}}, bounds);
    return made;
  }

  std::array<Counter*, outcome_names.size()> requests =
      each(counters("yolk_requests_total", "Requests that ended, by how"), "outcome", outcome_names);
  Histogram& end_to_end =
      histograms("yolk_request_latency_seconds", "From a request's arrival to its last byte")
          .Add({}, request_buckets);
  Histogram& first_token =
      histograms("yolk_time_to_first_token_seconds", "From a request's arrival to its first token")
          .Add({}, first_token_buckets);
  Histogram& inter_token = histograms("yolk_inter_token_latency_seconds", "Between tokens of one choice")
                               .Add({}, inter_token_buckets);
  Histogram& queue =
      histograms("yolk_request_queue_time_seconds", "From arrival to the first computed prompt token")
          .Add({}, request_buckets);
  Counter& prompt =
      counters("yolk_prompt_tokens_total", "Prompt tokens of requests that were answered").Add({});
  Counter& cached =
      counters("yolk_prompt_tokens_cached_total", "Prompt tokens whose KV was not computed again").Add({});
  Counter& generated = counters("yolk_generation_tokens_total", "Tokens generated").Add({});
  Counter& preemptions =
      counters("yolk_preemptions_total", "Sequences that gave up their blocks, to be computed again").Add({});
  prometheus::Family<Counter>& resumed_family =
      counters("yolk_legs_resumed_total", "Legs that were tried again, by the reason");
  Counter& resumed_other = resumed_family.Add({{"reason", "other"}});
  std::array<Counter*, resume_reasons.size()> resumed = each(resumed_family, "reason", resume_reasons);
  std::array<Histogram*, step_names.size()> step_time =
      each(histograms("yolk_step_time_seconds", "A device's step"), "kind", step_names, step_buckets);
  std::array<Histogram*, step_names.size()> step_tokens = each(
      histograms("yolk_step_tokens", "Tokens in a device's step"), "kind", step_names, step_token_buckets);
  std::array<Counter*, path_names.size()> transfer_bytes =
      each(counters("yolk_transfer_bytes_total", "KV moved, by its way"), "path", path_names);
  std::array<Histogram*, path_names.size()> transfer_time = each(
      histograms("yolk_transfer_time_seconds", "A transfer of KV"), "path", path_names, transfer_buckets);
  std::array<Counter*, path_names.size()> transfer_failures =
      each(counters("yolk_transfer_failures_total", "Transfers that failed or did not verify"), "path",
           path_names);
  std::array<Counter*, ssd_event_names.size()> ssd_blocks =
      each(counters("yolk_ssd_blocks_total", "Blocks of the SSD tier, by what became of them"), "event",
           ssd_event_names);
  std::array<Counter*, ssd_event_names.size()> ssd_bytes =
      each(counters("yolk_ssd_bytes_total", "KV of those blocks"), "event", ssd_event_names);
  Histogram& ssd_load =
      histograms("yolk_ssd_load_time_seconds", "A prefix from SSD into DRAM").Add({}, transfer_buckets);
  Gauge& wanted_blocks =
      gauges("yolk_cache_wanted_blocks", "Blocks in DRAM that are kept for requests in a queue").Add({});
  Gauge& running = gauges("yolk_requests_running", "Requests that are worked on").Add({});
  Gauge& waiting = gauges("yolk_requests_waiting", "Requests that wait for their turn").Add({});
  Gauge& kv_highest =
      gauges("yolk_kv_cache_usage_ratio", "Blocks held by sequences, of the fullest device pool, 0 to 1")
          .Add({});
  prometheus::Family<Gauge>& kv_family =
      gauges("yolk_kv_usage_ratio", "Used part of a pool or arena, 0 to 1");
  prometheus::Family<Counter>& restart_family =
      counters("yolk_actor_restarts_total", "Actors that the supervisor started again");

  std::mutex kv_mutex;
  std::map<std::tuple<std::string, std::string, std::uint32_t>, Gauge*> kv_gauges;

  recent_values recent_first_token;
  recent_values recent_inter_token;
  recent_values recent_end_to_end;
};

metrics::metrics(std::string_view model_name) : registry_(std::make_unique<registry>(model_name)) {}
metrics::~metrics() = default;

void metrics::request_ended(outcome how, core::duration end_to_end) {
  registry_->requests[static_cast<std::size_t>(how)]->Increment();
  // Only whole answers say how long an answer takes.
  if (how != outcome::stop && how != outcome::length) return;
  registry_->end_to_end.Observe(seconds(end_to_end));
  registry_->recent_end_to_end.add(seconds(end_to_end));
}

void metrics::time_to_first_token(core::duration elapsed) {
  registry_->first_token.Observe(seconds(elapsed));
  registry_->recent_first_token.add(seconds(elapsed));
}

void metrics::inter_token_latency(core::duration gap) {
  registry_->inter_token.Observe(seconds(gap));
  registry_->recent_inter_token.add(seconds(gap));
}

void metrics::prompt_tokens(std::uint64_t count, std::uint64_t cached) {
  registry_->prompt.Increment(static_cast<double>(count));
  registry_->cached.Increment(static_cast<double>(cached));
}

void metrics::generated_tokens(std::uint64_t count) {
  registry_->generated.Increment(static_cast<double>(count));
}

void metrics::queue_time(core::duration waited) {
  registry_->queue.Observe(seconds(waited));
}

void metrics::preemption() {
  registry_->preemptions.Increment();
}

void metrics::leg_resumed(std::string_view reason) {
  const auto found = std::find(resume_reasons.begin(), resume_reasons.end(), reason);
  if (found == resume_reasons.end()) return registry_->resumed_other.Increment();
  registry_->resumed[static_cast<std::size_t>(found - resume_reasons.begin())]->Increment();
}

void metrics::step(step_kind kind, std::uint32_t token_count, core::duration elapsed) {
  registry_->step_time[static_cast<std::size_t>(kind)]->Observe(seconds(elapsed));
  registry_->step_tokens[static_cast<std::size_t>(kind)]->Observe(token_count);
}

void metrics::transfer(transfer_path path, std::uint64_t bytes, core::duration elapsed) {
  registry_->transfer_bytes[static_cast<std::size_t>(path)]->Increment(static_cast<double>(bytes));
  registry_->transfer_time[static_cast<std::size_t>(path)]->Observe(seconds(elapsed));
}

void metrics::transfer_failed(transfer_path path) {
  registry_->transfer_failures[static_cast<std::size_t>(path)]->Increment();
}

void metrics::ssd_blocks(ssd_event what, std::uint64_t count, std::uint64_t bytes) {
  registry_->ssd_blocks[static_cast<std::size_t>(what)]->Increment(static_cast<double>(count));
  registry_->ssd_bytes[static_cast<std::size_t>(what)]->Increment(static_cast<double>(bytes));
}

void metrics::wanted_blocks(std::uint32_t count) {
  registry_->wanted_blocks.Set(count);
}

void metrics::ssd_load(core::duration elapsed) {
  registry_->ssd_load.Observe(seconds(elapsed));
}

void metrics::running_requests(double count) {
  registry_->running.Set(count);
}

void metrics::waiting_requests(double count) {
  registry_->waiting.Set(count);
}

void metrics::kv_usage(std::string_view tier, std::string_view owner, std::uint32_t id,
                       double used_fraction) {
  const auto shown_id = std::min(id, max_shown_id);
  auto key = std::tuple(known(tiers, tier), known(owners, owner), shown_id);
  const std::lock_guard lock(registry_->kv_mutex);
  Gauge*& gauge = registry_->kv_gauges[key];
  if (gauge == nullptr)
    gauge = &registry_->kv_family.Add(
        {{"tier", std::get<0>(key)}, {"owner", std::get<1>(key)}, {"id", std::to_string(shown_id)}});
  gauge->Set(used_fraction);
  double highest = 0;
  for (const auto& [name, each] : registry_->kv_gauges)
    if (std::get<0>(name) == "device") highest = std::max(highest, each->Value());
  registry_->kv_highest.Set(highest);
}

void metrics::actor_restarted(std::string_view kind) {
  registry_->restart_family.Add({{"kind", known(actor_kinds, kind)}}).Increment();
}

metrics::quantiles metrics::recent_time_to_first_token() const {
  return registry_->recent_first_token.read();
}
metrics::quantiles metrics::recent_inter_token_latency() const {
  return registry_->recent_inter_token.read();
}
metrics::quantiles metrics::recent_end_to_end() const {
  return registry_->recent_end_to_end.read();
}

metrics::totals metrics::count() const {
  const auto requests = [&](outcome how) {
    return whole(*registry_->requests[static_cast<std::size_t>(how)]);
  };
  totals sum;
  sum.finished = requests(outcome::stop) + requests(outcome::length);
  sum.refused = requests(outcome::refused);
  sum.cancelled = requests(outcome::cancelled);
  sum.failed = requests(outcome::failed);
  sum.preemptions = whole(registry_->preemptions);
  sum.resumed = whole(registry_->resumed_other);
  for (const Counter* each : registry_->resumed) sum.resumed += whole(*each);
  sum.prompt_tokens = whole(registry_->prompt);
  sum.cached_tokens = whole(registry_->cached);
  sum.generated_tokens = whole(registry_->generated);
  for (const Histogram* each : registry_->transfer_time)
    sum.transfers += each->Collect().histogram.sample_count;
  for (const Counter* each : registry_->transfer_bytes) sum.transfer_bytes += whole(*each);
  for (const Counter* each : registry_->transfer_failures) sum.transfer_failures += whole(*each);
  return sum;
}

std::string metrics::expose() const {
  return prometheus::TextSerializer().Serialize(registry_->all.Collect());
}

}  // namespace yolk::actors
