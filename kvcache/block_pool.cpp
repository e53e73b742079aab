#include "kvcache/block_pool.hpp"

#include "core/invariant.hpp"

namespace yolk::kvcache {

block_pool::block_pool(std::uint32_t block_count) : reference_counts_(block_count, 0) {
  YOLK_INVARIANT(block_count < core::no_block, block_count);
  free_.reserve(block_count);
  // The free list is a stack: filled downwards so that block 0 leaves first.
  for (std::uint32_t block = block_count; block > 0; --block) free_.push_back(block - 1);
}

std::uint32_t block_pool::block_count() const {
  return static_cast<std::uint32_t>(reference_counts_.size());
}

std::uint32_t block_pool::free_count() const {
  return static_cast<std::uint32_t>(free_.size());
}

std::optional<core::block_index> block_pool::allocate() {
  if (free_.empty()) return std::nullopt;
  const core::block_index block = free_.back();
  free_.pop_back();
  reference_counts_[block] = 1;
  return block;
}

void block_pool::add_reference(core::block_index block) {
  YOLK_INVARIANT(block < reference_counts_.size(), block, reference_counts_.size());
  // A free block has no owner who could share it: a reference to it is a use after free.
  YOLK_INVARIANT(reference_counts_[block] > 0, block);
  ++reference_counts_[block];
}

bool block_pool::release(core::block_index block) {
  YOLK_INVARIANT(block < reference_counts_.size(), block, reference_counts_.size());
  YOLK_INVARIANT(reference_counts_[block] > 0, block);
  if (--reference_counts_[block] > 0) return false;
  free_.push_back(block);
  return true;
}

std::uint32_t block_pool::reference_count(core::block_index block) const {
  YOLK_INVARIANT(block < reference_counts_.size(), block, reference_counts_.size());
  return reference_counts_[block];
}

}  // namespace yolk::kvcache
