#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yolk::http {

/// One actor, as the page at / draws it.
struct actor_view {
  std::string name;  ///< unique: "prefill_worker 0"
  std::string
      kind;  ///< http_gateway, admission_controller, conductor, prefill_worker, decode_worker, cache_shard, …
  std::string state;   ///< "ready", "busy", "draining", "restarting" or "down"
  std::string device;  ///< "host", "cuda"; empty for an actor without one
  std::uint64_t incarnation = 0;
  std::uint64_t restarts = 0;
  std::uint64_t queue = 0;          ///< requests that wait for it
  std::uint64_t running = 0;        ///< requests or sequences it works on
  std::uint64_t blocks_total = 0;   ///< KV blocks of its pool; 0 = it has none
  std::uint64_t blocks_used = 0;    ///< held by sequences
  std::uint64_t blocks_cached = 0;  ///< kept for later prompts, free to evict; used + cached <= total
  double tokens_per_second = 0;     ///< prefill: prompt tokens computed; decode: tokens generated
};

/// KV moved from one actor to another, summed since start; the page draws a line while the sums grow.
struct link_view {
  std::string from;  ///< an actor_view's name
  std::string to;
  std::uint64_t transfers = 0;
  std::uint64_t bytes = 0;
};

/// One tier of the cache at one owner.
struct tier_view {
  std::string name;   ///< "device", "dram", …
  std::string owner;  ///< an actor_view's name
  std::uint64_t bytes_used = 0;
  std::uint64_t bytes_limit = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t miss_tokens = 0;
  std::uint64_t evicted_blocks = 0;
};

/// Quantiles over the recent requests; all 0 while there are none (count says).
struct quantiles_view {
  double p50_ms = 0;
  double p90_ms = 0;
  double p99_ms = 0;
  std::uint64_t count = 0;
};

struct latency_view {
  quantiles_view ttft;
  quantiles_view tbt;
  quantiles_view e2e;
};

/// Requests are "now" for running and waiting, sums since start for the rest.
struct counters_view {
  std::uint64_t requests_running = 0;
  std::uint64_t requests_waiting = 0;
  std::uint64_t requests_finished = 0;
  std::uint64_t requests_refused = 0;
  std::uint64_t requests_cancelled = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::uint64_t transfers = 0;
  std::uint64_t transfer_bytes = 0;
  std::uint64_t transfer_failures = 0;
};

/// What GET /cluster answers: the cluster at one moment, in plain values. Who fills it owns the truth; the
/// page at / and `yolk` itself only draw it.
struct cluster_view {
  std::string model;
  std::string version;
  std::string url;     ///< where clients reach it: "http://127.0.0.1:8000"
  std::string device;  ///< of the workers
  double uptime_seconds = 0;
  std::uint64_t max_model_len = 0;
  std::uint64_t block_tokens = 0;
  std::vector<actor_view> actors;
  std::vector<link_view> links;
  std::vector<tier_view> tiers;
  latency_view latency;
  counters_view counters;
};

std::string to_json(const cluster_view& view);

}  // namespace yolk::http
