// GEMM on float activations: weights are widened, products are fused multiply-adds in float.

namespace {

using packed_element = float;
constexpr std::size_t elements_per_pair = 2;

/// A step is a pair of inputs: bf16 weights are widened on the way, activations lie as [input][Rows].
template <int Lines>
struct panel_step {
  const float* rows;
  const std::uint32_t* words;  ///< 64 a step
  const std::uint32_t* ahead;  ///< Lines cache lines of it are fetched a step
  template <int Rows, int Vectors>
  inline void add(f16 (&sum)[Rows][Vectors], std::size_t s) const {
    const std::uint32_t* w = words + s * panel_columns;
    const float* a = rows + s * 2 * Rows;
    fetch_ahead<Lines>(ahead, s);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      // All rows take the even input before any takes the odd one: both at a time do not fit AVX2's
      // registers.
      const f16 even = low_half(load_words(w + v * lane_count));
#pragma GCC unroll 16
      for (int row = 0; row < Rows; ++row) sum[row][v] = fma(set1(a[row]), even, sum[row][v]);
      const f16 odd = high_half(load_words(w + v * lane_count));
#pragma GCC unroll 16
      for (int row = 0; row < Rows; ++row) sum[row][v] = fma(set1(a[Rows + row]), odd, sum[row][v]);
    }
  }
};

/// Inputs [begin, end) of one group, turned over.
template <int Rows>
inline void pack_group(const float* x, std::size_t x_stride, std::size_t begin, std::size_t end, float* out) {
  for (std::size_t i = begin; i < end; ++i) {
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) out[i * Rows + row] = x[row * x_stride + i];
  }
}

void pack_kernel(const rows_to_pack& p, std::size_t group, std::size_t begin, std::size_t end) {
  const row_groups groups = split_rows<gemm_rows>(p.row_count);
  const std::size_t padded = (p.input_count + 1) / 2 * 2;
  const std::size_t first = group * groups.size;
  const std::size_t rows = rows_of_group(groups, p.row_count, group);
  float* out = static_cast<float*>(p.out) + first * padded;
  with_rows<gemm_rows>(
      rows, [&]<int Rows>() { pack_group<Rows>(p.x + first * p.x_stride, p.x_stride, begin, end, out); });
  if (end == p.input_count && padded != p.input_count) {
    for (std::size_t row = 0; row < rows; ++row) out[p.input_count * rows + row] = 0.0f;
  }
}

constexpr std::size_t products_per_probe = lane_count;

/// Chains enough to fill any pipeline. The result goes back to the caller so that nothing is optimised away.
float probe_kernel(std::size_t count) {
  f16 sum[8];
  for (int i = 0; i < 8; ++i) sum[i] = set1(1.0f);
  f16 factor = set1(0.5f);
  for (std::size_t i = 0; i < count; i += 8) {
    for (int j = 0; j < 8; ++j) sum[j] = fma(sum[j], factor, factor);
  }
  f16 all = sum[0];
  for (int i = 1; i < 8; ++i) all = all + sum[i];
  return sum_lanes(all);
}

}  // namespace
