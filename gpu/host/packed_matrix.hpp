#pragma once

#include <span>

#include "gpu/device.hpp"
#include "gpu/host/aligned_buffer.hpp"

namespace yolk::gpu::host {

/// A weight matrix as the host's GEMM reads it: panels of 64 outputs, see kernel_table.hpp. Immutable once
/// packed.
class packed_matrix final : public weight_matrix {
 public:
  /// Checks what is to be stacked and allocates; pack_panel then fills every panel, in any order and in
  /// parallel.
  static result<std::shared_ptr<packed_matrix>> create(std::span<const matrix_view> stacked);

  [[nodiscard]] std::size_t rows() const override { return rows_; }
  [[nodiscard]] std::size_t columns() const override { return columns_; }
  [[nodiscard]] std::size_t bytes() const override { return memory_.bytes(); }

  [[nodiscard]] std::size_t panel_count() const;
  [[nodiscard]] std::size_t pair_count() const { return (columns_ + 1) / 2; }
  [[nodiscard]] const std::uint32_t* words() const {
    return static_cast<const std::uint32_t*>(memory_.data());
  }

  void pack_panel(std::span<const matrix_view> stacked, std::size_t panel);
  /// One row, widened.
  void unpack_row(std::size_t row, float* out) const;

 private:
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  aligned_buffer memory_;
};

}  // namespace yolk::gpu::host
