// The register tile that GEMM and attention share, on the vector type that the including file has chosen.
// Not a header of its own: it is compiled once per ISA, in an unnamed namespace (see kernel_table.hpp).

namespace {

/// c[row][0 .. 16·Vectors) (+)= sum over steps, each output one chain of multiply-adds with the steps in
/// ascending order. That chain is all there is to the arithmetic, so an output's bits do not depend on Rows
/// or Vectors, nor on where the steps were cut in two (the partial sum waits in c, as float).
template <int Rows, int Vectors, class Step>
inline void run_tile(const Step& step, std::size_t steps, float* c, std::size_t c_stride, bool resume) {
  f16 sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      sum[row][v] = resume ? load(c + row * c_stride + v * lane_count) : set1(0.0f);
    }
  }
  for (std::size_t s = 0; s < steps; ++s) step.template add<Rows, Vectors>(sum, s);
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) store(c + row * c_stride + v * lane_count, sum[row][v]);
  }
}

/// A step is a pair of inputs: bf16 weights widened on the way, activations [input][Rows] floats.
struct widening_step {
  const float* rows;
  const std::uint32_t* words;  ///< 64 a step
  std::size_t prefetch_words;  ///< how far ahead in `words` to prefetch; 0: not at all
  template <int Rows, int Vectors>
  inline void add(f16 (&sum)[Rows][Vectors], std::size_t s) const {
    const std::uint32_t* w = words + s * panel_columns;
    const float* a = rows + s * 2 * Rows;
    if (prefetch_words != 0) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) prefetch(w + prefetch_words + v * lane_count);
    }
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      const w16 both = load_words(w + v * lane_count);
      const f16 even = low_half(both);
      const f16 odd = high_half(both);
#pragma GCC unroll 16
      for (int row = 0; row < Rows; ++row) {
        sum[row][v] = fma(set1(a[row]), even, sum[row][v]);
        sum[row][v] = fma(set1(a[Rows + row]), odd, sum[row][v]);
      }
    }
  }
};

/// A step is one input, everything float: b [step][b_stride], a either [step][Rows] or row-major with a
/// stride known to the compiler.
template <int RowStride>
struct float_step {
  const float* a;
  const float* b;
  std::size_t b_stride;
  template <int Rows, int Vectors>
  inline void add(f16 (&sum)[Rows][Vectors], std::size_t s) const {
    f16 column[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) column[v] = load(b + s * b_stride + v * lane_count);
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      const f16 value = set1(RowStride == 0 ? a[s * Rows + row] : a[row * RowStride + s]);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[row][v] = fma(value, column[v], sum[row][v]);
    }
  }
};

/// As many vectors side by side as the registers hold beside Rows rows.
template <int Rows>
constexpr int tile_vectors() {
  constexpr int room = register_tile / Rows;
  return room >= 4 ? 4 : room >= 2 ? 2 : 1;
}

/// Calls f.operator()<Rows>() for the row count that is only known at run time.
template <int Rows = 1, class F>
inline void with_rows(std::size_t rows, const F& f) {
  if constexpr (Rows < max_rows) {
    if (rows != Rows) {
      with_rows<Rows + 1>(rows, f);
      return;
    }
  }
  f.template operator()<Rows>();
}

}  // namespace
