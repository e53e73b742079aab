#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"

namespace yolk::kvcache {

/// 128-bit chained hash (XXH3-128, seed 0, little-endian fields) of everything up to the end of a block.
struct block_key {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const block_key&, const block_key&) = default;
};

/// What a chain of keys starts from. Two requests share KV only if all of this is equal.
struct key_root_fields {
  std::string_view tenant;    ///< API key's tenant; empty = anonymous
  std::string_view salt;      ///< the client's cache_salt
  std::string_view model;     ///< fingerprint of weights, config and numerics
  std::string_view kv_dtype;  ///< "bf16"
  std::string_view adapter;   ///< empty = none
  std::uint32_t format_version = 1;
  std::uint32_t block_tokens = 16;
};

block_key make_root(const key_root_fields& fields);
/// The key of the block that holds `tokens` (exactly one block's) after `parent`.
block_key chain(block_key parent, std::span<const core::token_id> tokens);
/// Keys of all full blocks of `tokens`, in order; a trailing partial block has none.
std::vector<block_key> keys_of(block_key root, std::span<const core::token_id> tokens,
                               std::uint32_t block_tokens);
std::string to_string(block_key key);  ///< 32 hex digits

}  // namespace yolk::kvcache

template <>
struct std::hash<yolk::kvcache::block_key> {
  std::size_t operator()(const yolk::kvcache::block_key& key) const noexcept { return key.low; }
};
