#include "kvcache/block_key.hpp"

#define XXH_STATIC_LINKING_ONLY  // the streaming state, on the stack
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace yolk::kvcache {

static_assert(std::endian::native == std::endian::little, "keys hash little-endian fields");

namespace {

block_key from_hash(XXH128_hash_t hash) {
  return {hash.high64, hash.low64};
}

void append(std::string& out, std::string_view field) {
  const auto size = static_cast<std::uint32_t>(field.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof size).append(field);
}

}  // namespace

block_key make_root(const key_root_fields& fields) {
  std::string bytes = "yolk-root";
  for (std::string_view field : {fields.tenant, fields.salt, fields.model, fields.kv_dtype, fields.adapter})
    append(bytes, field);
  bytes.append(reinterpret_cast<const char*>(&fields.format_version), sizeof fields.format_version);
  bytes.append(reinterpret_cast<const char*>(&fields.block_tokens), sizeof fields.block_tokens);
  return from_hash(XXH3_128bits(bytes.data(), bytes.size()));
}

block_key chain(block_key parent, std::span<const core::token_id> tokens) {
  // The usual block fits on the stack: hashing it in one call costs a tenth of the streaming state's set-up.
  std::array<std::byte, 512> bytes;
  if (sizeof parent + tokens.size_bytes() <= bytes.size()) {
    std::memcpy(bytes.data(), &parent.high, sizeof parent.high);
    std::memcpy(bytes.data() + sizeof parent.high, &parent.low, sizeof parent.low);
    if (!tokens.empty()) std::memcpy(bytes.data() + sizeof parent, tokens.data(), tokens.size_bytes());
    return from_hash(XXH3_128bits(bytes.data(), sizeof parent + tokens.size_bytes()));
  }
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, &parent.high, sizeof parent.high);
  XXH3_128bits_update(&state, &parent.low, sizeof parent.low);
  XXH3_128bits_update(&state, tokens.data(), tokens.size_bytes());
  return from_hash(XXH3_128bits_digest(&state));
}

std::vector<block_key> keys_of(block_key root, std::span<const core::token_id> tokens,
                               std::uint32_t block_tokens) {
  std::vector<block_key> keys;
  keys.reserve(tokens.size() / block_tokens);
  for (std::size_t begin = 0; begin + block_tokens <= tokens.size(); begin += block_tokens) {
    root = chain(root, tokens.subspan(begin, block_tokens));
    keys.push_back(root);
  }
  return keys;
}

std::string to_string(block_key key) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(key.high),
                static_cast<unsigned long long>(key.low));
  return text;
}

}  // namespace yolk::kvcache
