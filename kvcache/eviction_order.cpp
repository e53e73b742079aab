#include "kvcache/eviction_order.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace yolk::kvcache {

namespace {

constexpr std::array<std::string_view, 5> names{"lru", "lfu", "length_aware", "leaf_lru", "look_ahead"};
constexpr std::array<std::string_view, 4> serving_names{"lru", "lfu", "length_aware", "look_ahead"};
constexpr std::uint32_t no_parent = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

struct traced_block {
  bool cached = false;
  std::uint32_t parent = no_parent;
  std::uint32_t children = 0;  ///< cached ones
  std::uint32_t position = 0;  ///< in its prompt
  std::uint64_t uses = 0;      ///< since it came
  std::uint64_t last_use = 0;
  std::uint64_t next_use = never;  ///< number of the prompt
};

/// First to be evicted first.
using rank = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t>;

class replayed_cache {
 public:
  replayed_cache(std::span<const traced_prompt> prompts, eviction_order order, std::size_t capacity_blocks)
      : prompts_(prompts), order_(order), capacity_(capacity_blocks) {
    std::uint32_t largest = 0;
    for (const auto& prompt : prompts)
      for (const std::uint32_t id : prompt) largest = std::max(largest, id);
    blocks_.resize(std::size_t{largest} + 1);
    if (order == eviction_order::look_ahead) find_next_uses();
  }

  replay_counts run() {
    replay_counts counts;
    std::size_t next = 0;
    for (const auto& prompt : prompts_) {
      counts.references += prompt.size();
      for (const std::uint32_t id : prompt) {
        if (!blocks_[id].cached) break;
        ++counts.hits;
      }
      std::uint32_t parent = no_parent;
      for (std::uint32_t position = 0; position < prompt.size(); ++position) {
        const std::uint64_t next_use = next_uses_.empty() ? never : next_uses_[next++];
        use(prompt[position], {.parent = parent, .position = position, .next_use = next_use});
        parent = prompt[position];
      }
    }
    return counts;
  }

 private:
  void find_next_uses() {
    std::vector<std::uint64_t> seen(blocks_.size(), never);
    for (std::size_t prompt = prompts_.size(); prompt-- > 0;)
      for (std::size_t i = prompts_[prompt].size(); i-- > 0;)
        next_uses_.push_back(std::exchange(seen[prompts_[prompt][i]], prompt));
    std::ranges::reverse(next_uses_);
  }

  [[nodiscard]] rank rank_of(std::uint32_t id) const {
    const traced_block& block = blocks_[id];
    switch (order_) {
      case eviction_order::lfu:
        return {block.uses, block.last_use, 0, id};
      case eviction_order::length_aware:
        return {block.uses, never - block.position, block.last_use, id};
      case eviction_order::look_ahead:
        return {never - block.next_use, never - block.position, block.last_use, id};
      default:
        return {block.last_use, 0, 0, id};
    }
  }

  [[nodiscard]] bool evictable(const traced_block& block) const {
    return block.cached && (order_ != eviction_order::leaf_lru || block.children == 0);
  }

  /// Changes a block, and its place among those that may be evicted.
  template <class Change>
  void change(std::uint32_t id, Change how) {
    traced_block& block = blocks_[id];
    if (evictable(block)) evictable_.erase(rank_of(id));
    how(block);
    if (evictable(block)) evictable_.insert(rank_of(id));
  }

  void use(std::uint32_t id, const traced_block& as) {
    const bool came = !blocks_[id].cached;
    change(id, [&](traced_block& block) {
      block.cached = true;
      block.parent = as.parent;
      block.position = as.position;
      block.uses = came ? 1 : block.uses + 1;
      block.last_use = ++now_;
      block.next_use = as.next_use;
    });
    if (!came) return;
    ++cached_count_;
    if (as.parent != no_parent) change(as.parent, [](traced_block& parent) { ++parent.children; });
    if (capacity_ != 0 && cached_count_ > capacity_) evict(std::get<3>(*evictable_.begin()));
  }

  void evict(std::uint32_t id) {
    const std::uint32_t parent = blocks_[id].parent;
    change(id, [](traced_block& block) { block.cached = false; });
    if (parent != no_parent) change(parent, [](traced_block& block) { --block.children; });
    --cached_count_;
  }

  std::span<const traced_prompt> prompts_;
  eviction_order order_;
  std::size_t capacity_;
  std::vector<traced_block> blocks_;      // by id
  std::vector<std::uint64_t> next_uses_;  // of every reference in order; for look_ahead
  std::set<rank> evictable_;
  std::size_t cached_count_ = 0;
  std::uint64_t now_ = 0;
};

}  // namespace

std::span<const std::string_view> eviction_order_names() {
  return names;
}

std::span<const std::string_view> serving_order_names() {
  return serving_names;
}

std::optional<eviction_order> find_eviction_order(std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<eviction_order>(found - names.begin());
}

replay_counts replay_hits(std::span<const traced_prompt> prompts, eviction_order order,
                          std::size_t capacity_blocks) {
  return replayed_cache(prompts, order, capacity_blocks).run();
}

}  // namespace yolk::kvcache
