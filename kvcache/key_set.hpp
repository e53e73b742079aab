#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/block_key.hpp"

namespace yolk::kvcache {

/// A set of block keys in one flat table: 16 bytes a slot, at most 3/4 and, from 16 slots on, at least 1/4
/// full, so that a key costs 21 to 64 bytes (43 at most in a set that only grew). Linear probing without
/// tombstones. Not thread-safe.
class key_set {
 public:
  /// False when it was there already.
  bool insert(block_key key);
  /// False when it was not there.
  bool erase(block_key key);
  [[nodiscard]] bool contains(block_key key) const;
  void clear();
  /// Room for `count` keys without growing.
  void reserve(std::size_t count);

  [[nodiscard]] std::size_t size() const { return used_ + (has_empty_ ? 1 : 0); }
  [[nodiscard]] std::size_t memory_bytes() const { return slots_.capacity() * sizeof(block_key); }

 private:
  static constexpr block_key empty{};  // marks a free slot; as a key it is kept apart, in has_empty_
  static constexpr std::size_t least_slots = 16;
  [[nodiscard]] std::size_t find_slot(block_key key) const;
  void rebuild(std::size_t slot_count);

  std::vector<block_key> slots_;
  std::size_t used_ = 0;
  bool has_empty_ = false;
};

}  // namespace yolk::kvcache
