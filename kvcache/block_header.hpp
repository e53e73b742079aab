#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "kvcache/block_key.hpp"
#include "kvcache/errc.hpp"
#include "kvcache/segment_layout.hpp"

namespace yolk::kvcache {

enum class segment_codec : std::uint8_t { plain = 0 };

/// Says what a stored block is; travels beside its bytes and is checked before a token is computed from them.
struct block_header {
  static constexpr std::uint32_t current_format = 1;
  block_key key;
  block_key parent;                    ///< the root for a first block
  std::vector<core::token_id> tokens;  ///< exactly block_tokens: a hit is proved by these
  std::uint32_t format_version = current_format;
  float key_rotation_base = 0.0f;    ///< RoPE base at which K is already rotated at its absolute position
  std::uint32_t first_position = 0;  ///< of the block's first token
  segment_codec codec = segment_codec::plain;
  std::vector<std::uint64_t> layer_checksums;  ///< XXH3-64 of each layer's run of segments
  core::incarnation writer;
  std::uint32_t generation = 0;  ///< of the slot, raised at every reuse
};

/// XXH3-64, seed 0.
std::uint64_t checksum(std::span<const std::byte> bytes);
/// One checksum per layer of a block that lies at `block`.
std::vector<std::uint64_t> layer_checksums(std::span<const std::byte> block, const segment_layout& layout);

/// Checks that `header` describes the block that holds `tokens` after `parent` (key recomputed), in this
/// format, layout and position; then that the payload matches its checksums. Says which check failed.
[[nodiscard]] result<core::void_t> verify_block(const block_header& header, block_key parent,
                                                std::span<const core::token_id> tokens,
                                                std::uint32_t first_position,
                                                std::span<const std::byte> block,
                                                const segment_layout& layout);

}  // namespace yolk::kvcache
