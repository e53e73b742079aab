#include "kvcache/block_header.hpp"

#include <xxhash.h>

#include <algorithm>
#include <string>

namespace yolk::kvcache {

namespace {

core::failure<errc> mismatch(errc code, const block_header& header, const std::string& what) {
  return {code, "block " + to_string(header.key) + ": " + what};
}

std::string unequal(const char* what, std::uint64_t is, std::uint64_t expected) {
  return std::string(what) + " is " + std::to_string(is) + ", expected " + std::to_string(expected);
}

/// What can be said of the header without the payload.
result<core::void_t> verify_header(const block_header& header, block_key parent,
                                   std::span<const core::token_id> tokens, std::uint32_t first_position,
                                   const segment_layout& layout) {
  if (header.format_version != block_header::current_format)
    return mismatch(errc::invalid_header, header,
                    unequal("format version", header.format_version, block_header::current_format));
  if (header.codec != segment_codec::plain)
    return mismatch(errc::invalid_header, header,
                    unequal("codec", static_cast<std::uint64_t>(header.codec), 0));
  if (header.tokens.size() != layout.block_tokens)
    return mismatch(errc::invalid_header, header,
                    unequal("token count", header.tokens.size(), layout.block_tokens));
  if (header.layer_checksums.size() != layout.layer_count)
    return mismatch(errc::invalid_header, header,
                    unequal("layer count", header.layer_checksums.size(), layout.layer_count));
  if (header.parent != parent)
    return mismatch(errc::verification_failed, header,
                    "parent is " + to_string(header.parent) + ", expected " + to_string(parent));
  if (!std::ranges::equal(header.tokens, tokens))
    return mismatch(errc::verification_failed, header, "its tokens are not the prompt's");
  if (const block_key key = chain(parent, tokens); header.key != key)
    return mismatch(errc::verification_failed, header,
                    "its parent and tokens give the key " + to_string(key));
  if (header.first_position != first_position)
    return mismatch(errc::verification_failed, header,
                    unequal("first position", header.first_position, first_position));
  return core::void_t{};
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::vector<std::uint64_t> layer_checksums(std::span<const std::byte> block, const segment_layout& layout) {
  YOLK_INVARIANT(block.size() == layout.block_bytes(), block.size(), layout.block_bytes());
  std::vector<std::uint64_t> sums;
  sums.reserve(layout.layer_count);
  for (std::uint32_t layer = 0; layer < layout.layer_count; ++layer)
    sums.push_back(checksum(block.subspan(layout.layer_offset(layer), layout.layer_bytes())));
  return sums;
}

result<core::void_t> verify_block(const block_header& header, block_key parent,
                                  std::span<const core::token_id> tokens, std::uint32_t first_position,
                                  std::span<const std::byte> block, const segment_layout& layout) {
  if (auto checked = verify_header(header, parent, tokens, first_position, layout); !checked) return checked;
  if (block.size() != layout.block_bytes())
    return mismatch(errc::verification_failed, header,
                    unequal("payload size", block.size(), layout.block_bytes()));
  for (std::uint32_t layer = 0; layer < layout.layer_count; ++layer) {
    const auto bytes = block.subspan(layout.layer_offset(layer), layout.layer_bytes());
    if (checksum(bytes) != header.layer_checksums[layer])
      return mismatch(errc::verification_failed, header,
                      "the payload of layer " + std::to_string(layer) + " does not match its checksum");
  }
  return core::void_t{};
}

}  // namespace yolk::kvcache
