// y = x · Wᵀ over packed panels. See kernels_tile.inl for how this file is compiled.

namespace {

inline row_groups split_rows(std::size_t row_count) {
  row_groups groups;
  groups.count = (row_count + max_rows - 1) / max_rows;
  groups.size = groups.count == 0 ? 0 : (row_count + groups.count - 1) / groups.count;
  return groups;
}

inline std::size_t rows_of_group(const row_groups& groups, std::size_t row_count, std::size_t group) {
  return group + 1 < groups.count ? groups.size : row_count - group * groups.size;
}

/// Pairs of inputs handled before the next set of columns: 64 pairs of a panel are 16 KiB, which stay in L1
/// while every row group passes over them.
constexpr std::size_t block_pairs = 64;
/// A single pass over a panel comes from memory; this far ahead (16 pairs, 4 KiB) hides its latency.
constexpr std::size_t streaming_prefetch_words = 16 * panel_columns;

/// The sums of one row group against one panel, into sums[Rows][64].
template <int Rows>
inline void whole_panel(const packed_element* rows, const std::uint32_t* panel, std::size_t pairs,
                        float* sums) {
  constexpr int vectors = tile_vectors<Rows>();
  if constexpr (vectors * lane_count == panel_columns) {
    const panel_step step = make_step(rows, panel, streaming_prefetch_words);
    run_tile<Rows, vectors>(step, pairs, sums, panel_columns, false);
  } else {
    for (std::size_t first = 0; first < pairs; first += block_pairs) {
      const std::size_t count = first + block_pairs < pairs ? block_pairs : pairs - first;
      // Each pass over a part of the columns prefetches its own part of the next block.
      for (std::size_t v = 0; v < panel_columns / lane_count; v += vectors) {
        const panel_step step =
            make_step(rows + first * elements_per_pair * Rows, panel + first * panel_columns + v * lane_count,
                      block_pairs * panel_columns);
        run_tile<Rows, vectors>(step, count, sums + v * lane_count, panel_columns, first != 0);
      }
    }
  }
}

/// One block of pairs of one row group, the panel's block being in L1 already or about to be.
template <int Rows>
inline void panel_block(const packed_element* rows, const std::uint32_t* panel, std::size_t count,
                        float* sums, std::size_t vector_begin, bool resume) {
  constexpr int vectors = tile_vectors<Rows>();
  constexpr int part = vectors > 2 ? 2 : vectors;
  for (std::size_t v = vector_begin; v < vector_begin + 2; v += part) {
    const panel_step step = make_step(rows, panel + v * lane_count, 0);
    run_tile<Rows, part>(step, count, sums + v * lane_count, panel_columns, resume);
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

void gemm_kernel(const gemm_piece& g, void* scratch) {
  const row_groups groups = split_rows(g.row_count);
  const auto* rows = static_cast<const packed_element*>(g.rows);
  const std::uint32_t* panel = g.panels + g.panel * g.pair_count * panel_columns;
  auto* sums = static_cast<float*>(scratch);
  const std::size_t row_elements = g.pair_count * elements_per_pair;
  const std::size_t first_row = g.group_begin * groups.size;
  if (g.group_end - g.group_begin == 1) {
    with_rows(rows_of_group(groups, g.row_count, g.group_begin), [&]<int Rows>() {
      whole_panel<Rows>(rows + first_row * row_elements, panel, g.pair_count, sums);
    });
  } else {
    for (std::size_t first = 0; first < g.pair_count; first += block_pairs) {
      const std::size_t count = first + block_pairs < g.pair_count ? block_pairs : g.pair_count - first;
      for (std::size_t v = 0; v < panel_columns / lane_count; v += 2) {
        for (std::size_t group = g.group_begin; group < g.group_end; ++group) {
          const std::size_t row = group * groups.size;
          with_rows(rows_of_group(groups, g.row_count, group), [&]<int Rows>() {
            panel_block<Rows>(rows + row * row_elements + first * elements_per_pair * Rows,
                              panel + first * panel_columns, count, sums + (row - first_row) * panel_columns,
                              v, first != 0);
          });
        }
      }
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
