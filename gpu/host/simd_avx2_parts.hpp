#pragma once

#include <immintrin.h>

#include <cstdint>

// What AVX2 and AVX-512 share. Each includer is compiled for its own CPU; all names are local to it.
namespace {

inline float sum_8_lanes(__m256 a) {
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
inline float max_8_lanes(__m256 a) {
  const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
inline float square_root(float value) {
  return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(value)));
}
inline void prefetch(const void* from) {
  _mm_prefetch(static_cast<const char*>(from), _MM_HINT_T0);
}

/// For what is used much later: to L2, so that L1 keeps what is in use.
inline void prefetch_far(const void* from) {
  _mm_prefetch(static_cast<const char*>(from), _MM_HINT_T1);
}

/// Rounds 8 floats to bf16 in the low half of each lane (to nearest, ties to even; NaN stays NaN).
inline __m256i round_to_bf16(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan));
}

inline void store_bf16_parts(std::uint16_t* to, __m256 low, __m256 high) {
  const __m256i packed = _mm256_packus_epi32(round_to_bf16(low), round_to_bf16(high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xd8));
}

/// Widens 16 channels of 8 tokens, from `channel` on, and turns them over: out[channel · stride + token]. Two
/// bf16 channels travel as one 32-bit element through an 8x8 transpose and are split at the end.
inline void transpose_8x16(const std::uint16_t* const* tokens, std::size_t channel, float* out,
                           std::size_t stride) {
  __m256i r[8], t[8];
  for (int i = 0; i < 8; ++i)
    r[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tokens[i] + channel));
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
  }
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  for (int pair = 0; pair < 8; ++pair) {
    _mm256_storeu_ps(out + (2 * pair) * stride, _mm256_castsi256_ps(_mm256_slli_epi32(t[pair], 16)));
    _mm256_storeu_ps(out + (2 * pair + 1) * stride, _mm256_castsi256_ps(_mm256_and_si256(t[pair], high)));
  }
}

}  // namespace
