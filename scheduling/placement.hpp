#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "scheduling/latency_model.hpp"

namespace yolk::scheduling {

/// Where something stands, for the choice of a link: equal nodes are joined by `local`, nodes of one site by
/// `network`, sites by `site`.
struct location {
  std::uint32_t node = 0;
  std::uint32_t site = 0;
};

link_path path_between(location from, location to);

/// A prefill worker, as whoever places sees it for one prompt.
struct prefill_candidate {
  core::worker_id worker;
  location at;
  double queue_seconds = 0.0;  ///< predicted, until all that was placed there is computed
  std::uint32_t queued_requests = 0;
  std::uint64_t queued_tokens = 0;         ///< uncached, not yet computed
  std::uint32_t device_cached_tokens = 0;  ///< leading tokens of this prompt in the worker's own blocks
};

/// A cache shard that has a part of the prompt.
struct prefix_holder {
  core::worker_id holder;
  location at;
  std::uint32_t cached_tokens = 0;  ///< leading tokens of this prompt
  std::uint32_t transfers = 0;      ///< pulls from it that are predicted to be under way
  std::uint64_t free_tokens = 0;    ///< room without evicting anything
};

struct decode_candidate {
  core::worker_id worker;
  location at;
  std::uint32_t sequences = 0;       ///< placed there and not ended, those still in prefill included
  std::uint64_t context_tokens = 0;  ///< of these
  std::uint64_t free_tokens = 0;     ///< room in its block pool
};

/// All that is known of the cluster when a prompt is placed. Lives for one call.
struct cluster_view {
  std::span<const prefill_candidate> prefill;
  std::span<const prefix_holder> holders;
  std::span<const decode_candidate> decode;
  const corrected_model* latency = nullptr;
};

struct placement_request {
  std::uint64_t number = 0;  ///< what a random choice is drawn from, beside the policy's seed
  std::uint32_t prompt_tokens = 0;
  std::uint32_t expected_output_tokens = 256;
  std::uint32_t choice_count = 1;
  double now_seconds = 0.0;  ///< of any clock that does not go back
  /// Chained: equal ids are equal prefixes. One per full block; may be empty for policies that do not ask
  /// (reads_prefix()).
  std::span<const std::uint64_t> prefix_ids;
  std::uint32_t block_tokens = 16;
  bool may_hold = true;  ///< false: a worker is to be named now, however long its queue
};

struct placement {
  core::worker_id prefill;
  core::worker_id decode;
  /// The shard to ask for the prefix, and how much of the prompt it has; none: compute what is not on the
  /// device.
  std::optional<core::worker_id> source;
  std::uint32_t source_tokens = 0;
  std::uint32_t reused_tokens = 0;  ///< of the prompt, from device and source
  double service_seconds = 0.0;     ///< predicted time on the prefill worker alone
  double predicted_ttft_seconds = 0.0;
  double predicted_tbt_seconds = 0.0;  ///< mean over the sequence's life on the decode worker
};

/// Chooses where a prompt is computed and where its tokens are generated. Deterministic: the same seed and
/// the same calls give the same placements. Not thread-safe.
class placement_policy {
 public:
  virtual ~placement_policy() = default;
  placement_policy() = default;
  placement_policy(const placement_policy&) = delete;
  placement_policy& operator=(const placement_policy&) = delete;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Nothing when there is no prefill or no decode worker; also when the policy would rather hold the prompt
  /// until a worker is nearer to the end of its queue: ask again when a prefill has ended.
  virtual std::optional<placement> place(const placement_request& request, const cluster_view& view) = 0;
  /// Whether the request's prefix_ids matter to it.
  [[nodiscard]] virtual bool reads_prefix() const { return false; }
  /// A first token came, after so long: policies that watch for hot spots learn from it.
  virtual void first_token(core::worker_id /*prefill*/, std::uint64_t /*last_prefix_id*/,
                           double /*ttft_seconds*/, double /*now_seconds*/) {}
};

struct placement_options {
  std::uint64_t seed = 0;
  /// Mooncake's kvcache_balancing_threshold: a prefix is fetched where best / own length exceeds it.
  double balancing_threshold = 1.0;
  /// Preble: window of history, and the load ratio beyond which exploitation is redirected.
  double window_seconds = 180.0;
  double rebalance_ratio = 1.5;
  /// Dynamo: 0 takes the least cost, more draws by softmax.
  double temperature = 0.0;
  /// Yolk: while every worker's queue is longer than this, a prompt is held where it can still go anywhere.
  /// 0: until a worker is idle; infinity: never held.
  double hold_seconds = 0.25;
  /// Of those held, the one with the least arrival + weight x prefill goes first: 0 is the order of arrival.
  double short_first_weight = 1.0;
  /// However long a prompt, only those that come within so much after it go before it.
  double short_first_seconds = 6.0;
};

/// The place of a held prompt in their order: least first. `service_seconds`: its predicted prefill.
inline double hold_key(double arrival_seconds, double service_seconds, const placement_options& options) {
  return arrival_seconds +
         std::min(options.short_first_weight * service_seconds, options.short_first_seconds);
}

/// "random", "round_robin", "least_loaded", "longest_prefix", "cache_aware", "mooncake", "preble", "dynamo",
/// "llm_d", "yolk" (docs/scheduling.md).
std::span<const std::string_view> placement_policy_names();
inline constexpr std::string_view default_placement_policy = "yolk";
/// Fails with unknown_name.
result<std::unique_ptr<placement_policy>> make_placement_policy(std::string_view name,
                                                                const placement_options& options = {});

}  // namespace yolk::scheduling
