#include "kvcache/eviction_queue.hpp"

#include "core/invariant.hpp"

namespace yolk::kvcache {

eviction_queue::eviction_queue(std::uint32_t block_count) : positions_(block_count, absent) {}

void eviction_queue::push(core::block_index block, eviction_rank rank) {
  YOLK_INVARIANT(!contains(block), block);
  heap_.emplace_back();
  sift_up(static_cast<std::uint32_t>(heap_.size() - 1), {rank, block});
}

void eviction_queue::remove(core::block_index block) {
  YOLK_INVARIANT(contains(block), block);
  const std::uint32_t position = positions_[block];
  positions_[block] = absent;
  const entry last = heap_.back();
  heap_.pop_back();
  if (position == heap_.size()) return;
  // The last entry takes the hole; it may belong above or below it.
  if (position > 0 && last < heap_[(position - 1) / 2]) {
    sift_up(position, last);
  } else {
    sift_down(position, last);
  }
}

core::block_index eviction_queue::pop() {
  YOLK_INVARIANT(!empty());
  const core::block_index block = heap_.front().block;
  remove(block);
  return block;
}

void eviction_queue::place(std::uint32_t position, entry what) {
  heap_[position] = what;
  positions_[what.block] = position;
}

void eviction_queue::sift_up(std::uint32_t position, entry what) {
  while (position > 0) {
    const std::uint32_t parent = (position - 1) / 2;
    if (!(what < heap_[parent])) break;
    place(position, heap_[parent]);
    position = parent;
  }
  place(position, what);
}

void eviction_queue::sift_down(std::uint32_t position, entry what) {
  const auto size = static_cast<std::uint32_t>(heap_.size());
  for (std::uint32_t child = 2 * position + 1; child < size; child = 2 * position + 1) {
    if (child + 1 < size && heap_[child + 1] < heap_[child]) ++child;
    if (!(heap_[child] < what)) break;
    place(position, heap_[child]);
    position = child;
  }
  place(position, what);
}

}  // namespace yolk::kvcache
