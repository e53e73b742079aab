#include "kvcache/key_set.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace yolk::kvcache {

/// The slot of the key, or the free one where it would go. The table must have a free slot.
std::size_t key_set::find_slot(block_key key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = key.low & mask;
  while (slots_[at] != empty && slots_[at] != key) at = (at + 1) & mask;
  return at;
}

bool key_set::contains(block_key key) const {
  if (key == empty) return has_empty_;
  return !slots_.empty() && slots_[find_slot(key)] == key;
}

bool key_set::insert(block_key key) {
  if (key == empty) return !std::exchange(has_empty_, true);
  if ((used_ + 1) * 4 > slots_.size() * 3) rebuild(std::max(least_slots, slots_.size() * 2));
  block_key& slot = slots_[find_slot(key)];
  if (slot == key) return false;
  slot = key;
  ++used_;
  return true;
}

bool key_set::erase(block_key key) {
  if (key == empty) return std::exchange(has_empty_, false);
  if (slots_.empty()) return false;
  const std::size_t mask = slots_.size() - 1;
  std::size_t hole = find_slot(key);
  if (slots_[hole] == empty) return false;
  // Move back every later key of the run that the hole would cut off from its home slot.
  for (std::size_t at = (hole + 1) & mask; slots_[at] != empty; at = (at + 1) & mask) {
    if (((at - slots_[at].low) & mask) < ((at - hole) & mask)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = empty;
  --used_;
  if (slots_.size() > least_slots && used_ * 4 < slots_.size()) rebuild(slots_.size() / 2);
  return true;
}

void key_set::clear() {
  slots_ = {};
  used_ = 0;
  has_empty_ = false;
}

void key_set::reserve(std::size_t count) {
  const std::size_t slot_count = std::bit_ceil(std::max(least_slots, count + count / 3 + 1));
  if (slot_count > slots_.size()) rebuild(slot_count);
}

void key_set::rebuild(std::size_t slot_count) {
  const std::vector<block_key> old = std::exchange(slots_, std::vector<block_key>(slot_count));
  for (const block_key key : old)
    if (key != empty) slots_[find_slot(key)] = key;
}

}  // namespace yolk::kvcache
