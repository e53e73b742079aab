#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace yolk::kvcache {

/// Which block a full cache gives up. Ties go to the least recently used.
/// - lru: the least recently used.
/// - lfu: the least often used since it came.
/// - length_aware: as lfu, of these the one that stood latest in its prompt (Mooncake, arXiv 2407.00079).
/// - leaf_lru: the least recently used of those that no cached block follows, so that none becomes
/// unreachable.
/// - look_ahead: the one whose next use is furthest in the trace. Knows the future: what is possible.
enum class eviction_order : std::uint8_t { lru, lfu, length_aware, leaf_lru, look_ahead };

std::span<const std::string_view> eviction_order_names();
/// Those that a serving cache may have. It is always leaf first, and so its `lru` is leaf_lru; its
/// `look_ahead` is that, too, but for what requests in the queue will need.
std::span<const std::string_view> serving_order_names();
std::optional<eviction_order> find_eviction_order(std::string_view name);

/// A prompt's blocks as a trace names them: equal ids are equal prefixes.
using traced_prompt = std::vector<std::uint32_t>;

struct replay_counts {
  std::uint64_t references = 0;
  std::uint64_t hits = 0;  ///< leading blocks of a prompt that were cached when it came
  [[nodiscard]] double hit_ratio() const {
    return references == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(references);
  }
};

/// One cache for all prompts, one after another. `capacity_blocks` 0: without a bound.
replay_counts replay_hits(std::span<const traced_prompt> prompts, eviction_order order,
                          std::size_t capacity_blocks);

}  // namespace yolk::kvcache
