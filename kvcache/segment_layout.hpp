#pragma once

#include <cstddef>
#include <cstdint>

#include "kvcache/errc.hpp"

namespace yolk::kvcache {

enum class kv_part : std::uint8_t { key = 0, value = 1 };

/// How a block lies in memory: segments[layer][kv_head][K|V], each [block_tokens][head_dim] of element_bytes,
/// contiguous; every segment starts on a multiple of 64 bytes (static shape, checked by make_segment_layout).
struct segment_layout {
  std::uint32_t layer_count = 0;
  std::uint32_t kv_head_count = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t block_tokens = 16;
  std::uint32_t element_bytes = 2;

  [[nodiscard]] constexpr std::size_t segment_bytes() const {
    return std::size_t{block_tokens} * head_dim * element_bytes;
  }
  [[nodiscard]] constexpr std::size_t layer_bytes() const { return segment_bytes() * kv_head_count * 2; }
  [[nodiscard]] constexpr std::size_t block_bytes() const { return layer_bytes() * layer_count; }
  [[nodiscard]] constexpr std::size_t token_bytes() const { return block_bytes() / block_tokens; }
  [[nodiscard]] constexpr std::size_t layer_offset(std::uint32_t layer) const {
    return layer * layer_bytes();
  }
  [[nodiscard]] constexpr std::size_t segment_offset(std::uint32_t layer, std::uint32_t head,
                                                     kv_part part) const {
    return layer_offset(layer) + (std::size_t{head} * 2 + static_cast<std::size_t>(part)) * segment_bytes();
  }
  [[nodiscard]] constexpr std::uint32_t blocks_for(std::uint32_t token_count) const {
    return token_count / block_tokens + (token_count % block_tokens != 0 ? 1 : 0);
  }
  friend bool operator==(const segment_layout&, const segment_layout&) = default;
};

inline constexpr std::size_t segment_alignment = 64;
/// A block of the largest public models takes some 10 MB; up to here slot offsets and sizes cannot overflow
/// 64 bits.
inline constexpr std::size_t max_block_bytes = std::size_t{1} << 30;

/// `shape` if it can be laid out: no size is zero, a segment is a multiple of segment_alignment, a block
/// takes at most max_block_bytes. Else says which size is wrong.
[[nodiscard]] result<segment_layout> make_segment_layout(const segment_layout& shape);

}  // namespace yolk::kvcache
