#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace yolk::kvcache {

/// A block's place among those that may be evicted: the least goes first.
struct eviction_rank {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend auto operator<=>(const eviction_rank&, const eviction_rank&) = default;
};

/// The blocks that may be evicted, by rank (ties to the lowest index): a binary heap that knows where each
/// block stands, so that a block that is used again leaves in O(log n). Owned by one prefix cache; not
/// thread-safe.
class eviction_queue {
 public:
  explicit eviction_queue(std::uint32_t block_count);

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  [[nodiscard]] bool contains(core::block_index block) const { return positions_[block] != absent; }
  void push(core::block_index block, eviction_rank rank);
  void remove(core::block_index block);
  /// In no order.
  template <class Function>
  void for_each(Function&& function) const {
    for (const auto& [rank, block] : heap_) function(rank, block);
  }
  /// The block of the least rank; the queue must not be empty.
  core::block_index pop();

 private:
  static constexpr std::uint32_t absent = 0xffffffffu;
  struct entry {
    eviction_rank rank;
    core::block_index block = core::no_block;
    friend auto operator<=>(const entry&, const entry&) = default;
  };
  void place(std::uint32_t position, entry what);
  void sift_up(std::uint32_t position, entry what);
  void sift_down(std::uint32_t position, entry what);

  std::vector<entry> heap_;
  std::vector<std::uint32_t> positions_;  // by block
};

}  // namespace yolk::kvcache
