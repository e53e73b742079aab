#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/clock.hpp"

namespace yolk::actors {

/// The node's metrics: names and buckets in docs/metrics.md. One object per node, given to every actor by
/// constructor. Thread-safe; a record costs tens of nanoseconds. Labels have fixed values only.
class metrics {
 public:
  enum class outcome : std::uint8_t { stop, length, cancelled, refused, invalid, failed };
  enum class transfer_path : std::uint8_t { prefill_to_decode, shard_to_prefill, worker_to_shard };
  enum class ssd_event : std::uint8_t {
    restored,
    saved,
    save_dropped,
    save_failed,
    read,
    read_failed,
    check_failed,
    reclaimed
  };
  enum class step_kind : std::uint8_t { prefill, decode };
  struct quantiles {
    double p50 = 0, p90 = 0, p99 = 0;
  };

  explicit metrics(std::string_view model_name);
  ~metrics();

  // gateway
  void request_ended(outcome how, core::duration end_to_end);
  void time_to_first_token(core::duration elapsed);
  void inter_token_latency(core::duration gap);
  void prompt_tokens(std::uint64_t count, std::uint64_t cached);  ///< once a request, at its first token
  void generated_tokens(std::uint64_t count);
  // admission, conductor, workers
  void queue_time(core::duration waited);  ///< from arrival to the first computed token of the prompt
  void preemption();
  void leg_resumed(std::string_view reason);  ///< reason: a LegFailed enumerant's name
  void step(step_kind kind, std::uint32_t token_count, core::duration elapsed);
  void transfer(transfer_path path, std::uint64_t bytes, core::duration elapsed);
  void transfer_failed(transfer_path path);
  void running_requests(double count);
  void waiting_requests(double count);
  void ssd_blocks(ssd_event what, std::uint64_t count, std::uint64_t bytes);
  /// Pinned for requests that wait in a queue.
  void wanted_blocks(std::uint32_t count);
  void ssd_load(core::duration elapsed);  ///< a prefix from SSD into DRAM
  /// tier: "device", "dram" or "ssd"; owner: "prefill", "decode" or "cache", with the actor's id.
  void kv_usage(std::string_view tier, std::string_view owner, std::uint32_t id, double used_fraction);
  void actor_restarted(std::string_view kind);

  // what /cluster shows: over the last 1,000 records
  [[nodiscard]] quantiles recent_time_to_first_token() const;
  [[nodiscard]] quantiles recent_inter_token_latency() const;
  [[nodiscard]] quantiles recent_end_to_end() const;
  struct totals {
    std::uint64_t finished = 0, refused = 0, cancelled = 0, failed = 0, preemptions = 0, resumed = 0;
    std::uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
    std::uint64_t transfers = 0, transfer_bytes = 0, transfer_failures = 0;
  };
  [[nodiscard]] totals count() const;

  /// The Prometheus text format, for GET /metrics.
  [[nodiscard]] std::string expose() const;

 private:
  struct registry;
  std::unique_ptr<registry> registry_;
};

}  // namespace yolk::actors
