#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"
#include "kvcache/block_key.hpp"

namespace yolk::kvcache {

/// Which block of a pool is cached under which key, both ways. Open addressing with linear probing and no
/// tombstones; a slot is 8 bytes and there are at least twice as many slots as blocks, so the map never
/// grows. Owned by one prefix cache; not thread-safe.
class block_map {
 public:
  explicit block_map(std::uint32_t block_count);

  /// The block under `key`, or no_block.
  [[nodiscard]] core::block_index find(block_key key) const;
  /// Neither the key nor the block may be in the map.
  void insert(block_key key, core::block_index block);
  void erase(core::block_index block);
  [[nodiscard]] bool contains(core::block_index block) const { return present_[block]; }
  /// The key of a block that is in the map.
  [[nodiscard]] block_key key_of(core::block_index block) const { return keys_[block]; }

 private:
  /// The tag is the low half of the key's low word: it gives the slot and spares most looks at keys_.
  struct slot {
    std::uint32_t tag = 0;
    core::block_index block = core::no_block;
  };
  static std::uint32_t tag_of(block_key key) { return static_cast<std::uint32_t>(key.low); }

  std::vector<block_key> keys_;  // by block
  std::vector<bool> present_;    // by block
  std::vector<slot> slots_;
  std::uint32_t mask_ = 0;
};

}  // namespace yolk::kvcache
