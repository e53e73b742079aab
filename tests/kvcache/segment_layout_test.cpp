#include "kvcache/segment_layout.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace yolk::kvcache;

namespace {
const segment_layout builtin{
    .layer_count = 4, .kv_head_count = 2, .head_dim = 64, .block_tokens = 16, .element_bytes = 2};
}

TEST_CASE("segments tile a block without gaps or overlaps, each on its alignment") {
  const auto made = make_segment_layout(builtin);
  REQUIRE(made);
  const segment_layout& layout = *made;
  std::size_t next = 0;
  for (std::uint32_t layer = 0; layer < layout.layer_count; ++layer) {
    CHECK(layout.layer_offset(layer) == next);
    for (std::uint32_t head = 0; head < layout.kv_head_count; ++head) {
      for (const kv_part part : {kv_part::key, kv_part::value}) {
        CHECK(layout.segment_offset(layer, head, part) == next);
        CHECK(next % segment_alignment == 0);
        next += layout.segment_bytes();
      }
    }
  }
  CHECK(layout.block_bytes() == next);
  CHECK(layout.block_bytes() == 4 * 2 * 2 * 16 * 64 * 2);
  CHECK(layout.token_bytes() == 4 * 2 * 2 * 64 * 2);
}

TEST_CASE("blocks_for rounds up and does not overflow") {
  CHECK(builtin.blocks_for(0) == 0);
  CHECK(builtin.blocks_for(1) == 1);
  CHECK(builtin.blocks_for(16) == 1);
  CHECK(builtin.blocks_for(17) == 2);
  CHECK(builtin.blocks_for(0xffffffffu) == 0x10000000u);
}

TEST_CASE("a zero size is refused by name") {
  const std::pair<std::uint32_t segment_layout::*, const char*> sizes[] = {
      {&segment_layout::layer_count, "layer_count"},
      {&segment_layout::kv_head_count, "kv_head_count"},
      {&segment_layout::head_dim, "head_dim"},
      {&segment_layout::block_tokens, "block_tokens"},
      {&segment_layout::element_bytes, "element_bytes"}};
  for (const auto& [size, name] : sizes) {
    segment_layout shape = builtin;
    shape.*size = 0;
    const auto made = make_segment_layout(shape);
    REQUIRE_FALSE(made);
    CHECK(made.error().code == errc::invalid_layout);
    CHECK(made.error().message == "segment layout: " + std::string(name) + " is 0");
  }
}

TEST_CASE("segments that would not lie aligned are refused with their sizes") {
  segment_layout shape = builtin;
  shape.block_tokens = 1;
  shape.head_dim = 48;
  const auto made = make_segment_layout(shape);
  REQUIRE_FALSE(made);
  CHECK(made.error().message.find("96 bytes (block_tokens 1 x head_dim 48 x element_bytes 2)") !=
        std::string::npos);
  shape.head_dim = 32;  // 64 bytes: just enough
  CHECK(make_segment_layout(shape).has_value());
}

TEST_CASE("sizes whose product overflows or passes the limit are refused") {
  segment_layout shape = builtin;
  for (const std::uint32_t size : {0x10000u, 0x80000000u, 0xffffffffu}) {
    shape = {.layer_count = size,
             .kv_head_count = size,
             .head_dim = size,
             .block_tokens = size,
             .element_bytes = size};
    const auto made = make_segment_layout(shape);
    REQUIRE_FALSE(made);
    CHECK(made.error().message.find("larger than the limit of 1073741824 bytes") != std::string::npos);
  }
  // Products that wrap to something small and aligned: 2 · 2^32 · 2^32 = 0 in 64 bits.
  shape = builtin;
  shape.layer_count = 0x80000000u;
  shape.kv_head_count = 0x80000000u;
  CHECK_FALSE(make_segment_layout(shape).has_value());
  shape = {
      .layer_count = 1u << 15, .kv_head_count = 8, .head_dim = 64, .block_tokens = 16, .element_bytes = 2};
  CHECK(make_segment_layout(shape).value().block_bytes() == max_block_bytes);
  ++shape.layer_count;
  CHECK_FALSE(make_segment_layout(shape).has_value());
}
