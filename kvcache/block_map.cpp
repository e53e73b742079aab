#include "kvcache/block_map.hpp"

#include <algorithm>
#include <bit>

#include "core/invariant.hpp"

namespace yolk::kvcache {

block_map::block_map(std::uint32_t block_count) : keys_(block_count), present_(block_count, false) {
  YOLK_INVARIANT(block_count < 0x80000000u, block_count);
  const std::uint64_t slot_count = std::bit_ceil(std::max<std::uint64_t>(2, std::uint64_t{block_count} * 2));
  slots_.resize(slot_count);
  mask_ = static_cast<std::uint32_t>(slot_count - 1);
}

core::block_index block_map::find(block_key key) const {
  const std::uint32_t tag = tag_of(key);
  for (std::uint32_t at = tag & mask_; slots_[at].block != core::no_block; at = (at + 1) & mask_) {
    if (slots_[at].tag == tag && keys_[slots_[at].block] == key) return slots_[at].block;
  }
  return core::no_block;
}

void block_map::insert(block_key key, core::block_index block) {
  YOLK_INVARIANT(!present_[block], block, to_string(key));
  const std::uint32_t tag = tag_of(key);
  std::uint32_t at = tag & mask_;
  while (slots_[at].block != core::no_block) at = (at + 1) & mask_;
  slots_[at] = {tag, block};
  keys_[block] = key;
  present_[block] = true;
}

void block_map::erase(core::block_index block) {
  YOLK_INVARIANT(present_[block], block);
  std::uint32_t hole = tag_of(keys_[block]) & mask_;
  while (slots_[hole].block != block) hole = (hole + 1) & mask_;
  present_[block] = false;
  // Move back every later entry of the run that the hole would cut off from its home slot.
  for (std::uint32_t at = (hole + 1) & mask_; slots_[at].block != core::no_block; at = (at + 1) & mask_) {
    const std::uint32_t distance_from_home = (at - (slots_[at].tag & mask_)) & mask_;
    const std::uint32_t distance_from_hole = (at - hole) & mask_;
    if (distance_from_home < distance_from_hole) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {};
}

}  // namespace yolk::kvcache
