#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace yolk::kvcache {

/// The blocks that may be evicted, least recently used first (ties to the lowest index): a binary heap that
/// knows where each block stands, so that a block that is used again leaves in O(log n). Owned by one prefix
/// cache; not thread-safe.
class eviction_queue {
 public:
  explicit eviction_queue(std::uint32_t block_count);

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  [[nodiscard]] bool contains(core::block_index block) const { return positions_[block] != absent; }
  void push(core::block_index block, std::uint64_t last_used);
  void remove(core::block_index block);
  /// In no order.
  template <class Function>
  void for_each(Function&& function) const {
    for (const auto& [last_used, block] : heap_) function(last_used, block);
  }
  /// The least recently used block; the queue must not be empty.
  core::block_index pop();

 private:
  static constexpr std::uint32_t absent = 0xffffffffu;
  struct entry {
    std::uint64_t last_used = 0;
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
