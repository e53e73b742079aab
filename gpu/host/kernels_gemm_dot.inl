// GEMM on activations rounded to bf16, with vdpbf16ps: twice the products per instruction where the CPU runs
// it at full rate. Sums stay float. The instruction adds its two products in an order of its own, always the
// same; subnormal operands count as zero.

namespace {

using packed_element = std::uint32_t;
constexpr std::size_t elements_per_pair = 1;

template <int Lines>
struct panel_step {
  const std::uint32_t* rows;
  const std::uint32_t* words;  ///< 64 a step
  const std::uint32_t* ahead;  ///< Lines cache lines of it are fetched a step
  template <int Rows, int Vectors>
  inline void add(f16 (&sum)[Rows][Vectors], std::size_t s) const {
    const std::uint32_t* w = words + s * panel_columns;
    const std::uint32_t* a = rows + s * Rows;
    fetch_ahead<Lines>(ahead, s);
    __m512bh column[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) column[v] = (__m512bh)_mm512_loadu_si512(w + v * lane_count);
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      const __m512bh pair = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[row]));
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[row][v].v = _mm512_dpbf16_ps(sum[row][v].v, pair, column[v]);
    }
  }
};

/// Inputs [begin, end) of one group, rounded and turned over; begin is even.
template <int Rows>
inline void pack_group(const float* x, std::size_t x_stride, std::size_t begin, std::size_t end,
                       std::uint32_t* out) {
  std::size_t i = begin;
  for (; i + lane_count <= end; i += lane_count) {
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      alignas(32) std::uint32_t words[lane_count / 2];
      _mm256_store_si256(reinterpret_cast<__m256i*>(words),
                         (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + row * x_stride + i)));
#pragma GCC unroll 8
      for (std::size_t pair = 0; pair < lane_count / 2; ++pair)
        out[(i / 2 + pair) * Rows + row] = words[pair];
    }
  }
  for (; i < end; i += 2) {
    for (int row = 0; row < Rows; ++row) {
      const float* from = x + row * x_stride + i;
      const __m128 both = _mm_setr_ps(from[0], i + 1 < end ? from[1] : 0.0f, 0.0f, 0.0f);
      out[i / 2 * Rows + row] = static_cast<std::uint32_t>(_mm_cvtsi128_si32((__m128i)_mm_cvtneps_pbh(both)));
    }
  }
}

void pack_kernel(const rows_to_pack& p, std::size_t group, std::size_t begin, std::size_t end) {
  const row_groups groups = split_rows<gemm_rows>(p.row_count);
  const std::size_t first = group * groups.size;
  std::uint32_t* out = static_cast<std::uint32_t*>(p.out) + first * ((p.input_count + 1) / 2);
  with_rows<gemm_rows>(rows_of_group(groups, p.row_count, group), [&]<int Rows>() {
    pack_group<Rows>(p.x + first * p.x_stride, p.x_stride, begin, end, out);
  });
}

constexpr std::size_t products_per_probe = 2 * lane_count;

/// Chains enough to fill any pipeline. The result goes back to the caller so that nothing is optimised away.
float probe_kernel(std::size_t count) {
  __m512 sum[8];
  for (int i = 0; i < 8; ++i) sum[i] = _mm512_set1_ps(1.0f);
  const __m512bh factor = (__m512bh)_mm512_set1_epi32(0x3e803e80);
  for (std::size_t i = 0; i < count; i += 8) {
    for (int j = 0; j < 8; ++j) sum[j] = _mm512_dpbf16_ps(sum[j], factor, factor);
  }
  f16 all = {sum[0]};
  for (int i = 1; i < 8; ++i) all = all + f16{sum[i]};
  return sum_lanes(all);
}

}  // namespace
