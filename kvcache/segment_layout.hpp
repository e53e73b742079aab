#pragma once

#include <cstddef>
#include <cstdint>

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
  [[nodiscard]] constexpr std::size_t layer_offset(std::uint32_t layer) const { return layer * layer_bytes(); }
  [[nodiscard]] constexpr std::size_t segment_offset(std::uint32_t layer, std::uint32_t head, kv_part part) const {
    return layer_offset(layer) + (std::size_t{head} * 2 + static_cast<std::size_t>(part)) * segment_bytes();
  }
  [[nodiscard]] constexpr std::uint32_t blocks_for(std::uint32_t token_count) const {
    return (token_count + block_tokens - 1) / block_tokens;
  }
  friend bool operator==(const segment_layout&, const segment_layout&) = default;
};

}  // namespace yolk::kvcache
