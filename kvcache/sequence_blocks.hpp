#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "kvcache/block_key.hpp"
#include "kvcache/prefix_cache.hpp"

namespace yolk::kvcache {

/// The KV of one block that must be copied to another before the step that was prepared writes.
struct block_copy {
  core::block_index source = core::no_block;
  core::block_index target = core::no_block;
};

/// The block table of a running sequence: which blocks of a prefix_cache hold its KV, in order, each with a
/// reference. Forks share all blocks; a shared block is never written: the last, partial one is copied by the
/// first that appends to it (copy-on-write, PagedAttention). Owned by the sequence's worker, like the cache,
/// which must outlive it; not thread-safe. Gives everything back when it ends.
class sequence_blocks {
 public:
  explicit sequence_blocks(prefix_cache& cache) : cache_(&cache) {}
  ~sequence_blocks() { release(); }
  sequence_blocks(sequence_blocks&& other) noexcept;
  sequence_blocks& operator=(sequence_blocks&& other) noexcept;
  sequence_blocks(const sequence_blocks&) = delete;
  sequence_blocks& operator=(const sequence_blocks&) = delete;

  /// Starts with a cached prefix (whole blocks): takes over the references that match() gave. The table must
  /// be empty.
  void adopt(std::span<const cached_block> prefix);

  /// How many blocks append(count) would allocate.
  [[nodiscard]] std::uint32_t blocks_needed(std::uint32_t count) const;
  struct appended {
    std::optional<block_copy> copy;  ///< to be done before the new positions are written
  };
  /// Room for `count` more positions, evicting as needed; all or nothing: without a value nothing has
  /// changed. The source of a copy keeps a reference until copied().
  [[nodiscard]] std::optional<appended> append(std::uint32_t count);
  /// The copy that append() asked for is done (or will not be).
  void copied();

  /// Another sequence with the same KV, all blocks shared. No copy may be pending.
  [[nodiscard]] sequence_blocks fork() const;
  /// Makes the full blocks findable; `tokens` are the sequence's, as many as it has positions or more.
  std::uint32_t publish(block_key root, std::span<const core::token_id> tokens) const;
  /// Drops all references in one call.
  void release();

  [[nodiscard]] std::span<const core::block_index> blocks() const { return blocks_; }
  [[nodiscard]] std::uint32_t token_count() const { return token_count_; }  ///< positions that have room
  [[nodiscard]] std::uint32_t full_block_count() const { return token_count_ / cache_->block_tokens(); }

 private:
  /// Whether the next position falls into the last block, and somebody else references that.
  [[nodiscard]] bool shares_partial_block() const;

  prefix_cache* cache_;
  std::vector<core::block_index> blocks_;
  std::uint32_t token_count_ = 0;
  core::block_index copy_source_ = core::no_block;
};

}  // namespace yolk::kvcache
