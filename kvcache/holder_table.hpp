#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/block_key.hpp"

namespace yolk::kvcache {

/// Which of up to 65,000 holders, numbered from 0, have which keys. One flat table over all of them: a key
/// costs 16 bytes a slot, at most 3/4 and, from 16 slots on, at least 1/4 full; keys of more than four
/// holders have a bit set beside it. A key is known by 64 bits mixed from its 128: of a thousand million keys
/// two are confused with a probability of 3 %, and who relies on it verifies what it gets. Linear probing
/// without tombstones. Not thread-safe.
class holder_table {
 public:
  using holder = std::uint16_t;
  static constexpr holder most_holders = 65'000;

  /// False when it was there already.
  bool insert(block_key key, holder who);
  /// False when it was not there.
  bool erase(block_key key, holder who);
  /// Takes the holder from all keys: one pass over the table.
  void erase_all(holder who);
  [[nodiscard]] bool contains(block_key key, holder who) const;

  struct match {
    holder who = 0;
    std::uint32_t leading = 0;  ///< > 0
  };
  /// Of every holder of the first key, how many of the leading keys it has; in no order.
  void leading(std::span<const block_key> keys, std::vector<match>& matches) const;

  [[nodiscard]] std::size_t key_count() const { return used_; }
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr holder none = 0xffff;
  static constexpr holder wide = 0xfffe;  ///< then [1] and [2] number a bit set
  static constexpr std::size_t inline_holders = 4;
  static constexpr std::size_t least_slots = 16;
  struct slot {
    std::uint64_t tag = 0;
    std::array<holder, inline_holders> holders{none, none, none,
                                               none};  ///< none at the end; all: a free slot
  };

  static std::uint64_t tag_of(block_key key);
  static bool is_free(const slot& at) { return at.holders[0] == none; }
  [[nodiscard]] std::size_t find_slot(std::uint64_t tag) const;
  [[nodiscard]] bool has(const slot& at, holder who) const;
  void add(slot& at, holder who);
  void take(slot& at, holder who);
  void widen(slot& at);
  [[nodiscard]] std::span<std::uint64_t> bits_of(const slot& at);
  [[nodiscard]] std::span<const std::uint64_t> bits_of(const slot& at) const;
  void make_room_for(holder who);
  void free_slot(std::size_t hole);
  void rebuild(std::size_t slot_count);

  std::vector<slot> slots_;
  std::size_t used_ = 0;
  std::vector<std::uint64_t> bits_;  ///< bit sets of stride_ words
  std::size_t stride_ = 1;
  std::vector<std::uint32_t> free_bits_;  ///< numbers of bit sets that are not used
};

}  // namespace yolk::kvcache
