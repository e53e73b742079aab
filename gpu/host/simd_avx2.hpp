#pragma once

#include "gpu/host/simd_avx2_parts.hpp"

// Sixteen floats in two AVX2 registers.
namespace {

struct f16 {
  __m256 a, b;
};
struct w16 {
  __m256i a, b;
};

inline f16 set1(float value) {
  const __m256 v = _mm256_set1_ps(value);
  return {v, v};
}
inline f16 load(const float* from) {
  return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}
inline void store(float* to, f16 v) {
  _mm256_storeu_ps(to, v.a);
  _mm256_storeu_ps(to + 8, v.b);
}
inline w16 load_words(const std::uint32_t* from) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 8))};
}
inline f16 low_half(w16 w) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(w.a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(w.b, 16))};
}
inline f16 high_half(w16 w) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm256_castsi256_ps(_mm256_and_si256(w.a, high)), _mm256_castsi256_ps(_mm256_and_si256(w.b, high))};
}
inline f16 fma(f16 x, f16 y, f16 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline f16 operator+(f16 x, f16 y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
inline f16 operator-(f16 x, f16 y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
inline f16 operator*(f16 x, f16 y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
inline f16 operator/(f16 x, f16 y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
inline f16 maximum(f16 x, f16 y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
inline f16 minimum(f16 x, f16 y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
inline f16 first_lanes(f16 x, f16 y, int count) {
  const __m256i limit = _mm256_set1_epi32(count);
  const __m256i low = _mm256_cmpgt_epi32(limit, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256i high = _mm256_cmpgt_epi32(limit, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15));
  return {_mm256_blendv_ps(y.a, x.a, _mm256_castsi256_ps(low)),
          _mm256_blendv_ps(y.b, x.b, _mm256_castsi256_ps(high))};
}
inline __m256 power_of_two_part(__m256 shifted) {
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23), _mm256_set1_epi32(0x3f800000)));
}
inline f16 power_of_two(f16 shifted) {
  return {power_of_two_part(shifted.a), power_of_two_part(shifted.b)};
}
inline float sum_lanes(f16 v) {
  return sum_8_lanes(_mm256_add_ps(v.a, v.b));
}
inline float max_lanes(f16 v) {
  return max_8_lanes(_mm256_max_ps(v.a, v.b));
}
inline __m256 widen_part(const std::uint16_t* from) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
inline f16 load_bf16(const std::uint16_t* from) {
  return {widen_part(from), widen_part(from + 8)};
}
inline void store_bf16(std::uint16_t* to, f16 v) {
  store_bf16_parts(to, v.a, v.b);
}

}  // namespace
