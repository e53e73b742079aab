#pragma once

#include "gpu/host/simd_avx2_parts.hpp"

// Sixteen floats in one AVX-512 register.
namespace {

struct f16 {
  __m512 v;
};
struct w16 {
  __m512i v;
};

inline f16 set1(float value) {
  return {_mm512_set1_ps(value)};
}
inline f16 load(const float* from) {
  return {_mm512_loadu_ps(from)};
}
inline void store(float* to, f16 x) {
  _mm512_storeu_ps(to, x.v);
}
inline w16 load_words(const std::uint32_t* from) {
  return {_mm512_loadu_si512(from)};
}
inline f16 low_half(w16 w) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(w.v, 16))};
}
inline f16 high_half(w16 w) {
  return {_mm512_castsi512_ps(_mm512_and_si512(w.v, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
}
inline f16 fma(f16 x, f16 y, f16 z) {
  return {_mm512_fmadd_ps(x.v, y.v, z.v)};
}
inline f16 operator+(f16 x, f16 y) {
  return {_mm512_add_ps(x.v, y.v)};
}
inline f16 operator-(f16 x, f16 y) {
  return {_mm512_sub_ps(x.v, y.v)};
}
inline f16 operator*(f16 x, f16 y) {
  return {_mm512_mul_ps(x.v, y.v)};
}
inline f16 operator/(f16 x, f16 y) {
  return {_mm512_div_ps(x.v, y.v)};
}
inline f16 maximum(f16 x, f16 y) {
  return {_mm512_max_ps(x.v, y.v)};
}
inline f16 minimum(f16 x, f16 y) {
  return {_mm512_min_ps(x.v, y.v)};
}
inline f16 first_lanes(f16 x, f16 y, int count) {
  const __mmask16 mask = static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
  return {_mm512_mask_blend_ps(mask, y.v, x.v)};
}
inline f16 power_of_two(f16 shifted) {
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23),
                                               _mm512_set1_epi32(0x3f800000)))};
}
inline __m256 low_part(f16 x) {
  return _mm512_castps512_ps256(x.v);
}
inline __m256 high_part(f16 x) {
  return _mm512_extractf32x8_ps(x.v, 1);
}
inline float sum_lanes(f16 x) {
  return sum_8_lanes(_mm256_add_ps(low_part(x), high_part(x)));
}
inline float max_lanes(f16 x) {
  return max_8_lanes(_mm256_max_ps(low_part(x), high_part(x)));
}
inline f16 load_bf16(const std::uint16_t* from) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
inline void store_bf16(std::uint16_t* to, f16 x) {
  store_bf16_parts(to, low_part(x), high_part(x));
}

}  // namespace
