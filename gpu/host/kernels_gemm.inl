// y = x · Wᵀ over packed panels. See kernels_tile.inl for how this file is compiled.

namespace {

/// Pairs of inputs that every row group passes over before the next: 64 pairs of a panel are 16 KiB and stay
/// in L1.
constexpr std::size_t block_pairs = 64;
constexpr std::size_t lines_per_pair = panel_columns * sizeof(std::uint32_t) / 64;
constexpr std::size_t line_words = 64 / sizeof(std::uint32_t);
/// A single pass over a panel comes from memory; fetching this far ahead (16 pairs, 4 KiB) hides its latency.
constexpr std::size_t streaming_words = 16 * panel_columns;

/// The sums of one row group against `count` pairs of a panel, into sums[Rows][64], in as many passes as it
/// takes to cover the panel's width. Beside each pair, Lines cache lines from `ahead` on are fetched, each
/// pass its share.
template <int Rows, int Lines>
inline void multiply_block(const packed_element* rows, const std::uint32_t* words, std::size_t count,
                           float* sums, bool resume, const std::uint32_t* ahead) {
  constexpr int vectors = tile_vectors<Rows>();
  constexpr int passes = static_cast<int>(panel_columns / lane_count) / vectors;
  constexpr int share = Lines > passes ? Lines / passes : Lines > 0 ? 1 : 0;
  for (int pass = 0; pass < passes; ++pass) {
    const std::uint32_t* w = words + pass * vectors * lane_count;
    float* out = sums + pass * vectors * lane_count;
    if (pass * share < Lines) {
      const std::uint32_t* part = ahead + pass * share * count * line_words;
      run_tile<Rows, vectors>(panel_step<share>{rows, w, part}, count, out, panel_columns, resume);
    } else {
      run_tile<Rows, vectors>(panel_step<0>{rows, w, nullptr}, count, out, panel_columns, resume);
    }
  }
}

/// One of several row groups against a block of pairs. Together the groups fetch the next block, each its
/// share, so that memory works while the cores multiply.
template <int Rows>
inline void multiply_shared_block(const packed_element* rows, const std::uint32_t* words, std::size_t count,
                                  float* sums, bool resume, std::size_t group, std::size_t group_count) {
  const std::uint32_t* next = words + count * panel_columns;
  if (group_count < lines_per_pair) {
    multiply_block<Rows, 2>(rows, words, count, sums, resume, next + group * count * 2 * line_words);
  } else if (group < lines_per_pair) {
    multiply_block<Rows, 1>(rows, words, count, sums, resume, next + group * count * line_words);
  } else {
    multiply_block<Rows, 0>(rows, words, count, sums, resume, nullptr);
  }
}

/// Adds bias and the old y, in this order, and writes the columns that exist.
inline void finish_row(const float* sums, const float* bias, float* y, std::size_t columns, bool accumulate) {
  if (columns == panel_columns) {
    for (std::size_t c = 0; c < panel_columns; c += lane_count) {
      f16 value = load(sums + c);
      if (bias != nullptr) value = value + load(bias + c);
      if (accumulate) value = load(y + c) + value;
      store(y + c, value);
    }
    return;
  }
  for (std::size_t c = 0; c < columns; ++c) {
    float value = sums[c];
    if (bias != nullptr) value = value + bias[c];
    y[c] = accumulate ? y[c] + value : value;
  }
}

/// Whether every row group's tile is as wide as a panel.
constexpr bool whole_width = tile_vectors<gemm_rows>() * lane_count == panel_columns;

void gemm_kernel(const gemm_piece& g, void* scratch) {
  const row_groups groups = split_rows<gemm_rows>(g.row_count);
  const auto* rows = static_cast<const packed_element*>(g.rows);
  const std::uint32_t* panel = g.panels + g.panel * g.pair_count * panel_columns;
  auto* sums = static_cast<float*>(scratch);
  const std::size_t row_elements = g.pair_count * elements_per_pair;
  const std::size_t first_row = g.group_begin * groups.size;
  const std::size_t group_count = g.group_end - g.group_begin;
  // A single group that fills the panel's width passes over all of it at once.
  const bool streams = group_count == 1;
  const std::size_t step = streams && whole_width ? g.pair_count : block_pairs;
  for (std::size_t first = 0; first < g.pair_count; first += step) {
    const std::size_t count = first + step < g.pair_count ? step : g.pair_count - first;
    const std::uint32_t* words = panel + first * panel_columns;
    for (std::size_t group = 0; group < group_count; ++group) {
      const std::size_t row = group * groups.size;
      with_rows<gemm_rows>(rows_of_group(groups, g.row_count, g.group_begin + group), [&]<int Rows>() {
        const packed_element* x = rows + (first_row + row) * row_elements + first * elements_per_pair * Rows;
        float* out = sums + row * panel_columns;
        if (streams) {
          const std::uint32_t* ahead = words + (whole_width ? streaming_words : count * panel_columns);
          multiply_block<Rows, lines_per_pair>(x, words, count, out, first != 0, ahead);
        } else {
          multiply_shared_block<Rows>(x, words, count, out, first != 0, group, group_count);
        }
      });
    }
  }
  const std::size_t end = g.group_end * groups.size;
  const std::size_t last_row = end < g.row_count ? end : g.row_count;
  const std::size_t column = g.panel * panel_columns;
  const std::size_t columns =
      g.output_count - column < panel_columns ? g.output_count - column : panel_columns;
  for (std::size_t row = first_row; row < last_row; ++row) {
    finish_row(sums + (row - first_row) * panel_columns, g.bias != nullptr ? g.bias + column : nullptr,
               g.y + row * g.y_stride + column, columns, g.accumulate);
  }
}

}  // namespace
