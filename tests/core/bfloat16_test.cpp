#include "core/bfloat16.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace yolk::core;

TEST_CASE("every bfloat16 survives the way to float and back") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bfloat16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) {
      CHECK(std::isnan(to_float(to_bfloat16(wide))));
    } else {
      CHECK(to_bfloat16(wide).bits == value.bits);
    }
  }
}

TEST_CASE("rounding is to nearest, ties to even") {
  CHECK(to_bfloat16(1.0f + 0x1p-8f).bits == to_bfloat16(1.0f).bits);          // tie, even below
  CHECK(to_float(to_bfloat16(1.0f + 0x1p-7f + 0x1p-8f)) == 1.0f + 0x1p-6f);   // tie, even above
  CHECK(to_float(to_bfloat16(1.0f + 0x1p-8f + 0x1p-20f)) == 1.0f + 0x1p-7f);  // above the tie
  CHECK(std::isinf(
      to_float(to_bfloat16(std::numeric_limits<float>::max()))));  // overflows as IEEE rounding does
}
