#pragma once

#include <cstdint>
#include <cstring>

// Sixteen floats in four compiler vectors: works on every CPU, multiplies and adds in two roundings.
namespace {

typedef float quad __attribute__((vector_size(16)));
typedef std::int32_t quad_int __attribute__((vector_size(16)));
typedef std::uint32_t quad_word __attribute__((vector_size(16)));

struct f16 {
  quad part[4];
};
struct w16 {
  quad_word part[4];
};

inline f16 set1(float value) {
  const quad q = {value, value, value, value};
  return {{q, q, q, q}};
}
inline f16 load(const float* from) {
  f16 out;
  std::memcpy(&out, from, 64);
  return out;
}
inline void store(float* to, const f16& value) {
  std::memcpy(to, &value, 64);
}
inline w16 load_words(const std::uint32_t* from) {
  w16 out;
  std::memcpy(&out, from, 64);
  return out;
}
inline f16 low_half(const w16& words) {
  f16 out;
  for (int i = 0; i < 4; ++i) out.part[i] = (quad)(words.part[i] << 16);
  return out;
}
inline f16 high_half(const w16& words) {
  f16 out;
  for (int i = 0; i < 4; ++i) out.part[i] = (quad)(words.part[i] & 0xffff0000u);
  return out;
}
inline f16 fma(const f16& a, const f16& b, const f16& c) {
  f16 out;
  for (int i = 0; i < 4; ++i) out.part[i] = a.part[i] * b.part[i] + c.part[i];
  return out;
}
inline f16 operator+(const f16& a, const f16& b) {
  f16 out;
  for (int i = 0; i < 4; ++i) out.part[i] = a.part[i] + b.part[i];
  return out;
}
inline f16 operator-(const f16& a, const f16& b) {
  f16 out;
  for (int i = 0; i < 4; ++i) out.part[i] = a.part[i] - b.part[i];
  return out;
}
inline f16 operator*(const f16& a, const f16& b) {
  f16 out;
  for (int i = 0; i < 4; ++i) out.part[i] = a.part[i] * b.part[i];
  return out;
}
inline f16 operator/(const f16& a, const f16& b) {
  f16 out;
  for (int i = 0; i < 4; ++i) out.part[i] = a.part[i] / b.part[i];
  return out;
}
/// b where the two do not compare, as the CPU's own instruction has it.
inline f16 maximum(const f16& a, const f16& b) {
  f16 out;
  for (int i = 0; i < 4; ++i) out.part[i] = a.part[i] > b.part[i] ? a.part[i] : b.part[i];
  return out;
}
inline f16 minimum(const f16& a, const f16& b) {
  f16 out;
  for (int i = 0; i < 4; ++i) out.part[i] = a.part[i] < b.part[i] ? a.part[i] : b.part[i];
  return out;
}
/// The first `count` lanes of a, the others of b.
inline f16 first_lanes(const f16& a, const f16& b, int count) {
  f16 out;
  for (int i = 0; i < 4; ++i) {
    const quad_int lane = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3};
    const quad_int limit = {count, count, count, count};
    out.part[i] = lane < limit ? a.part[i] : b.part[i];
  }
  return out;
}
/// 2^n for the integers n that adding 1.5 · 2^23 left in the low mantissa bits.
inline f16 power_of_two(const f16& shifted) {
  f16 out;
  for (int i = 0; i < 4; ++i) out.part[i] = (quad)(((quad_word)shifted.part[i] << 23) + 0x3f800000u);
  return out;
}
inline float sum_lanes(const f16& v) {
  const quad a = (v.part[0] + v.part[2]) + (v.part[1] + v.part[3]);
  return (a[0] + a[2]) + (a[1] + a[3]);
}
inline float max_lanes(const f16& v) {
  float best = v.part[0][0];
  for (int i = 0; i < 16; ++i) best = v.part[i / 4][i % 4] > best ? v.part[i / 4][i % 4] : best;
  return best;
}
inline float square_root(float value) {
  return __builtin_sqrtf(value);
}
inline f16 load_bf16(const std::uint16_t* from) {
  f16 out;
  for (int i = 0; i < 16; ++i)
    out.part[i / 4][i % 4] = __builtin_bit_cast(float, std::uint32_t{from[i]} << 16);
  return out;
}
inline void store_bf16(std::uint16_t* to, const f16& value) {
  for (int i = 0; i < 16; ++i) {
    const float lane = value.part[i / 4][i % 4];
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, lane);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    to[i] =
        static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
}
inline void prefetch(const void* from) {
  __builtin_prefetch(from);
}

inline void prefetch_far(const void* from) {
  __builtin_prefetch(from, 0, 2);
}

/// Widens 16 channels of 8 tokens, from `channel` on, and turns them over: out[channel · stride + token].
inline void transpose_8x16(const std::uint16_t* const* tokens, std::size_t channel, float* out,
                           std::size_t stride) {
  for (std::size_t c = 0; c < 16; ++c) {
    for (std::size_t token = 0; token < 8; ++token) {
      out[c * stride + token] = __builtin_bit_cast(float, std::uint32_t{tokens[token][channel + c]} << 16);
    }
  }
}

}  // namespace
