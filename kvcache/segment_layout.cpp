#include "kvcache/segment_layout.hpp"

#include <string>
#include <utility>

namespace yolk::kvcache {

namespace {

core::failure<errc> invalid(std::string message) {
  return {errc::invalid_layout, "segment layout: " + std::move(message)};
}

}  // namespace

result<segment_layout> make_segment_layout(const segment_layout& shape) {
  const std::pair<const char*, std::uint32_t> sizes[] = {{"layer_count", shape.layer_count},
                                                         {"kv_head_count", shape.kv_head_count},
                                                         {"head_dim", shape.head_dim},
                                                         {"block_tokens", shape.block_tokens},
                                                         {"element_bytes", shape.element_bytes}};
  for (const auto& [name, size] : sizes)
    if (size == 0) return invalid(std::string(name) + " is 0");
  // Multiplied one by one, so that each product is known to be small before the next: 2^30 · 2^32 fits in 64
  // bits.
  std::uint64_t bytes = 2;  // K and V
  for (const auto& [name, size] : sizes) {
    bytes *= size;
    if (bytes > max_block_bytes)
      return invalid("with " + std::string(name) + " " + std::to_string(size) +
                     " a block is larger than the limit of " + std::to_string(max_block_bytes) + " bytes");
  }
  if (shape.segment_bytes() % segment_alignment != 0)
    return invalid("a segment of " + std::to_string(shape.segment_bytes()) + " bytes (block_tokens " +
                   std::to_string(shape.block_tokens) + " x head_dim " + std::to_string(shape.head_dim) +
                   " x element_bytes " + std::to_string(shape.element_bytes) + ") is not a multiple of " +
                   std::to_string(segment_alignment));
  return shape;
}

}  // namespace yolk::kvcache
