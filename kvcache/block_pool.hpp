#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"

namespace yolk::kvcache {

/// Reference counts and the free list of a fixed number of blocks (Kwon et al., PagedAttention, SOSP'23).
/// Knows no memory and no keys. Owned by one actor; not thread-safe.
class block_pool {
 public:
  explicit block_pool(std::uint32_t block_count);

  [[nodiscard]] std::uint32_t block_count() const;
  [[nodiscard]] std::uint32_t free_count() const;
  /// A free block with one reference, or nothing. Lowest index first after start, then most recently freed.
  [[nodiscard]] std::optional<core::block_index> allocate();
  void add_reference(core::block_index block);
  /// Drops one reference; returns true when the block became free.
  bool release(core::block_index block);
  [[nodiscard]] std::uint32_t reference_count(core::block_index block) const;

 private:
  std::vector<std::uint32_t> reference_counts_;
  std::vector<core::block_index> free_;
};

}  // namespace yolk::kvcache
