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

/// Fetches `Lines` cache lines of what comes after, a step's share. All four lines of a pair are a stream
/// that is used soon; fewer are a share of the next block, which would push the current one out of L1 (M = 8:
/// 137 against 219 GFLOP/s), so that they go to L2.
template <int Lines>
inline void fetch_ahead(const std::uint32_t* ahead, std::size_t step) {
#pragma GCC unroll 4
  for (int line = 0; line < Lines; ++line) {
    const std::uint32_t* from = ahead + (step * Lines + line) * 16;
    if constexpr (Lines == 4) {
      prefetch(from);
    } else {
      prefetch_far(from);
    }
  }
}

/// As many vectors side by side as the registers hold beside Rows rows.
template <int Rows>
constexpr int tile_vectors() {
  constexpr int room = register_tile / Rows;
  return room >= 4 ? 4 : room >= 2 ? 2 : 1;
}

/// Calls f.operator()<Rows>() for the row count, at most Most, that is only known at run time.
template <int Most, int Rows = 1, class F>
inline void with_rows(std::size_t rows, const F& f) {
  if constexpr (Rows < Most) {
    if (rows != Rows) {
      with_rows<Most, Rows + 1>(rows, f);
      return;
    }
  }
  f.template operator()<Rows>();
}

/// Rows in groups of equal size up to Most, the last one shorter.
template <int Most>
inline row_groups split_rows(std::size_t row_count) {
  row_groups groups;
  groups.count = (row_count + Most - 1) / Most;
  groups.size = groups.count == 0 ? 0 : (row_count + groups.count - 1) / groups.count;
  return groups;
}

inline std::size_t rows_of_group(const row_groups& groups, std::size_t row_count, std::size_t group) {
  return group + 1 < groups.count ? groups.size : row_count - group * groups.size;
}

}  // namespace
