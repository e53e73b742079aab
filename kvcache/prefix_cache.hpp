#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "kvcache/block_key.hpp"
#include "kvcache/block_pool.hpp"
#include "kvcache/eviction_order.hpp"

namespace yolk::kvcache {

/// A cached block that a prompt begins with.
struct cached_block {
  block_key key;
  core::block_index block = core::no_block;
};

/// What changed in a cache: told to the conductor's index.
struct cache_event {
  enum class kind : std::uint8_t { stored, evicted } what = kind::stored;
  block_key key;
};

/// A pool of blocks with a prefix tree over it (RadixAttention's idea, at block granularity). The tree holds
/// one reference to each cached block; callers hold their own. Hits are proved: the key must be found AND the
/// block's tokens must equal the prompt's, from the first block on. Eviction is leaf first, of the leaves by
/// the order given, O(log n) a block, and touches only blocks that nobody but the tree references. Owned by
/// one actor; not thread-safe. Time is a logical counter.
class prefix_cache {
 public:
  /// How a key is computed from its parent's and the block's tokens: `chain`, but for tests that need
  /// collisions.
  using chain_function = block_key (*)(block_key parent, std::span<const core::token_id> tokens);

  prefix_cache(std::uint32_t block_count, std::uint32_t block_tokens, chain_function chain_key = &chain,
               eviction_order order = eviction_order::lru);
  ~prefix_cache();
  prefix_cache(const prefix_cache&) = delete;
  prefix_cache& operator=(const prefix_cache&) = delete;

  /// The longest cached prefix of `tokens`, at most max_tokens long (whole blocks). Each returned block gets
  /// a reference that the caller must release(). A use of each.
  [[nodiscard]] std::vector<cached_block> match(block_key root, std::span<const core::token_id> tokens,
                                                std::size_t max_tokens);
  /// As match, without references, and no use: for estimates.
  [[nodiscard]] std::uint32_t match_count(block_key root, std::span<const core::token_id> tokens) const;

  /// `count` blocks with one reference each, evicting as needed; all or nothing.
  [[nodiscard]] std::optional<std::vector<core::block_index>> allocate(std::uint32_t count);

  /// Makes the full blocks of `tokens` findable: blocks[i] holds tokens [i·block_tokens, (i+1)·block_tokens).
  /// Blocks already cached under the same key are left as they are (the caller keeps its duplicate). The tree
  /// takes its own reference to each block it adopts. Returns how many were adopted.
  std::uint32_t insert(block_key root, std::span<const core::token_id> tokens,
                       std::span<const core::block_index> blocks);
  /// As insert, for blocks that continue a cached chain: the first of `blocks` follows the block with key
  /// `parent` (or `root`, when it is the first). Adopts nothing when the parent is not cached (any more).
  std::uint32_t extend(block_key root, block_key parent, std::span<const core::token_id> tokens,
                       std::span<const core::block_index> blocks);

  /// The block that is cached under `key`, or nothing. No proof by tokens: for bookkeeping, not for hits.
  [[nodiscard]] std::optional<core::block_index> find(block_key key) const;

  /// The keys that `count` evictions would remove if nothing were used until then, in that order. Reads the
  /// whole queue: for an owner's clock, not for every request.
  [[nodiscard]] std::vector<block_key> next_evictions(std::size_t count) const;

  void add_reference(core::block_index block);
  void release(core::block_index block);
  [[nodiscard]] std::uint32_t reference_count(core::block_index block) const;

  /// Drops everything that nobody references; returns how many blocks became free.
  std::uint32_t clear();

  [[nodiscard]] std::uint32_t block_count() const;
  [[nodiscard]] std::uint32_t block_tokens() const;
  [[nodiscard]] std::uint32_t free_count() const;       ///< free now
  [[nodiscard]] std::uint32_t cached_count() const;     ///< held by the tree
  [[nodiscard]] std::uint32_t available_count() const;  ///< what allocate() can give now: free, or evictable
  [[nodiscard]] std::uint64_t evicted_total() const;

  /// Called on every change, from within the call that made it; it must not call the cache. Null = nobody
  /// listens.
  void set_listener(std::function<void(const cache_event&)> listener);
  /// All cached keys, parents before children: what a re-sync sends.
  [[nodiscard]] std::vector<block_key> snapshot() const;

  /// Invariant 4: empty when every block is either free, or cached with exactly the tree's reference; else
  /// one line for what is held beyond that. Also checks the structure against itself, in O(block_count).
  [[nodiscard]] std::string audit() const;

 private:
  struct tree;
  std::unique_ptr<tree> tree_;
};

}  // namespace yolk::kvcache
