#pragma once

#include <bit>
#include <cstdint>

namespace yolk::core {

/// The upper half of an IEEE single, as stored in weights and KV.
struct bfloat16 {
  std::uint16_t bits = 0;
};

inline float to_float(bfloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

/// Round to nearest, ties to even; NaN stays NaN.
inline bfloat16 to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace yolk::core
