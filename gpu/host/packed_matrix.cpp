#include "gpu/host/packed_matrix.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/bfloat16.hpp"
#include "core/invariant.hpp"
#include "gpu/host/kernel_table.hpp"

namespace yolk::gpu::host {

namespace {

/// Inputs converted at a time: 64 rows of them stay in L1.
constexpr std::size_t block_columns = 64;

/// Exact: every half has a float of its own. Without branches, so that the compiler takes several at a time.
float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  // 2^112 moves the exponent's bias from 15 to 127, subnormals included.
  const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000u);
  const std::uint32_t endless = 0x7f800000u | magnitude << 13;  // infinity or NaN
  return std::bit_cast<float>((magnitude >= 0x7c00u ? endless : std::bit_cast<std::uint32_t>(scaled)) | sign);
}

void convert(const matrix_view& view, std::size_t row, std::size_t column, std::size_t count,
             std::uint16_t* out) {
  const auto* from =
      static_cast<const unsigned char*>(view.data) + (row * view.columns + column) * size_of(view.type);
  switch (view.type) {
    case dtype::bf16:
      std::memcpy(out, from, count * 2);
      return;
    case dtype::f16: {
      std::array<std::uint16_t, block_columns> halves;
      std::memcpy(halves.data(), from, count * 2);
      for (std::size_t i = 0; i < count; ++i) out[i] = core::to_bfloat16(half_to_float(halves[i])).bits;
      return;
    }
    case dtype::f32: {
      std::array<float, block_columns> floats;
      std::memcpy(floats.data(), from, count * 4);
      for (std::size_t i = 0; i < count; ++i) out[i] = core::to_bfloat16(floats[i]).bits;
      return;
    }
  }
}

struct source_row {
  const matrix_view* view = nullptr;
  std::size_t row = 0;
};

source_row find_row(std::span<const matrix_view> stacked, std::size_t row) {
  for (const matrix_view& view : stacked) {
    if (row < view.rows) return {.view = &view, .row = row};
    row -= view.rows;
  }
  return {};
}

core::failure<errc> unsupported(std::string message) {
  return {.code = errc::unsupported, .message = std::move(message)};
}

}  // namespace

result<std::shared_ptr<packed_matrix>> packed_matrix::create(std::span<const matrix_view> stacked) {
  if (stacked.empty()) return unsupported("packing a weight matrix: no matrix given");
  auto matrix = std::make_shared<packed_matrix>();
  matrix->columns_ = stacked.front().columns;
  for (const matrix_view& view : stacked) {
    if (view.data == nullptr || view.rows == 0 || view.columns == 0) {
      return unsupported("packing a weight matrix: a part is empty (" + std::to_string(view.rows) + " x " +
                         std::to_string(view.columns) + ")");
    }
    if (view.columns != matrix->columns_) {
      return unsupported("packing a weight matrix: stacked parts have " + std::to_string(matrix->columns_) +
                         " and " + std::to_string(view.columns) + " columns");
    }
    matrix->rows_ += view.rows;
  }
  const std::size_t bytes =
      matrix->panel_count() * matrix->pair_count() * panel_columns * sizeof(std::uint32_t);
  matrix->memory_ = aligned_buffer::allocate(bytes);
  if (matrix->memory_.data() == nullptr) {
    return core::failure<errc>{
        .code = errc::out_of_memory,
        .message = "packing a weight matrix: no memory for " + std::to_string(bytes) + " bytes"};
  }
  return matrix;
}

std::size_t packed_matrix::panel_count() const {
  return (rows_ + panel_columns - 1) / panel_columns;
}

void packed_matrix::pack_panel(std::span<const matrix_view> stacked, std::size_t panel) {
  std::array<source_row, panel_columns> sources;
  for (std::size_t i = 0; i < panel_columns; ++i) sources[i] = find_row(stacked, panel * panel_columns + i);
  std::uint32_t* out = static_cast<std::uint32_t*>(memory_.data()) + panel * pair_count() * panel_columns;
  alignas(64) std::array<std::array<std::uint16_t, block_columns>, panel_columns> block;
  for (std::size_t column = 0; column < columns_; column += block_columns) {
    const std::size_t count = std::min(block_columns, columns_ - column);
    for (std::size_t i = 0; i < panel_columns; ++i) {
      if (sources[i].view == nullptr || count < block_columns) block[i].fill(0);
      if (sources[i].view != nullptr)
        convert(*sources[i].view, sources[i].row, column, count, block[i].data());
    }
    for (std::size_t pair = 0; 2 * pair < count; ++pair) {
      std::uint32_t* words = out + (column / 2 + pair) * panel_columns;
      for (std::size_t i = 0; i < panel_columns; ++i) {
        words[i] = block[i][2 * pair] | std::uint32_t{block[i][2 * pair + 1]} << 16;
      }
    }
  }
}

void packed_matrix::unpack_row(std::size_t row, float* out) const {
  YOLK_INVARIANT(row < rows_, row, rows_);
  const std::uint32_t* word =
      words() + row / panel_columns * pair_count() * panel_columns + row % panel_columns;
  for (std::size_t column = 0; column < columns_; column += 2, word += panel_columns) {
    out[column] = std::bit_cast<float>(*word << 16);
    if (column + 1 < columns_) out[column + 1] = std::bit_cast<float>(*word & 0xffff0000u);
  }
}

}  // namespace yolk::gpu::host
