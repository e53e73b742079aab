#include <bit>
#include <cmath>
#include <limits>

#include "gpu/host/packed_matrix.hpp"
#include "tests/gpu/host_fixture.hpp"

using namespace yolk;
using namespace yolk::gpu;
using namespace yolk::gpu::host;

namespace {

std::shared_ptr<packed_matrix> pack_all(std::span<const matrix_view> stacked) {
  auto matrix = *packed_matrix::create(stacked);
  for (std::size_t panel = 0; panel < matrix->panel_count(); ++panel) matrix->pack_panel(stacked, panel);
  return matrix;
}

std::vector<float> row_of(const packed_matrix& matrix, std::size_t row) {
  std::vector<float> out(matrix.columns());
  matrix.unpack_row(row, out.data());
  return out;
}

float half_value(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const double mantissa = half & 1023;
  const double sign = half & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31) return static_cast<float>(mantissa == 0 ? sign * INFINITY : NAN);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0 + mantissa, exponent - 25);
  return static_cast<float>(sign * magnitude);
}

}  // namespace

TEST_CASE("every half converts to the nearest bf16") {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  const matrix_view view = {.data = halves.data(), .type = dtype::f16, .rows = 256, .columns = 256};
  const auto matrix = pack_all({&view, 1});
  for (std::size_t row = 0; row < 256; ++row) {
    const std::vector<float> values = row_of(*matrix, row);
    for (std::size_t i = 0; i < 256; ++i) {
      const float expected = half_value(halves[row * 256 + i]);
      if (std::isnan(expected)) {
        REQUIRE(std::isnan(values[i]));
      } else {
        REQUIRE(std::bit_cast<std::uint32_t>(values[i]) ==
                std::bit_cast<std::uint32_t>(core::to_float(core::to_bfloat16(expected))));
      }
    }
  }
}

TEST_CASE("floats are rounded to the nearest bf16, ties to even, and bf16 is copied") {
  const std::vector<float> floats = {1.0f,
                                     std::bit_cast<float>(0x3f808000u),
                                     std::bit_cast<float>(0x3f818000u),
                                     std::bit_cast<float>(0x3f808001u),
                                     -0.0f,
                                     std::numeric_limits<float>::max()};
  const std::vector<std::uint16_t> same = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x8000, 0x7f80};
  const matrix_view views[] = {{.data = floats.data(), .type = dtype::f32, .rows = 1, .columns = 6},
                               {.data = same.data(), .type = dtype::bf16, .rows = 1, .columns = 6}};
  const auto matrix = pack_all(views);
  CHECK(row_of(*matrix, 0) == row_of(*matrix, 1));
  for (std::size_t i = 0; i < 6; ++i) CHECK(row_of(*matrix, 0)[i] == core::to_float({same[i]}));
}

TEST_CASE("matrices of several types are stacked by rows, across panels") {
  core::random_source random(3);
  const std::size_t columns = 131;
  const auto a = reference::random_bfloats(random, 10 * columns);
  const auto b = reference::random_bfloats(random, 100 * columns);
  std::vector<std::uint16_t> c(70 * columns);
  for (auto& bits : c) bits = core::to_bfloat16(reference::random_bfloat(random)).bits;
  const matrix_view views[] = {{.data = a.data(), .type = dtype::f32, .rows = 10, .columns = columns},
                               {.data = b.data(), .type = dtype::f32, .rows = 100, .columns = columns},
                               {.data = c.data(), .type = dtype::bf16, .rows = 70, .columns = columns}};
  const auto platform = *make_host_platform({.thread_count = 2});
  const auto packed = *platform->pack(views);
  CHECK(packed->rows() == 180);
  CHECK(packed->columns() == columns);
  CHECK(packed->bytes() >= 180 * columns * 2);
  const auto& matrix = static_cast<const packed_matrix&>(*packed);
  for (std::size_t row = 0; row < 180; ++row) {
    const auto values = row_of(matrix, row);
    for (std::size_t i = 0; i < columns; ++i) {
      const float expected = row < 10    ? a[row * columns + i]
                             : row < 110 ? b[(row - 10) * columns + i]
                                         : core::to_float({c[(row - 110) * columns + i]});
      REQUIRE(values[i] == expected);
    }
  }
}

TEST_CASE("what cannot be stacked is refused with both numbers, and so is a matrix that no memory holds") {
  const auto platform = *make_host_platform({.thread_count = 1});
  const float value = 1.0f;
  const matrix_view views[] = {{.data = &value, .type = dtype::f32, .rows = 1, .columns = 1},
                               {.data = &value, .type = dtype::f32, .rows = 1, .columns = 2}};
  const auto mixed = platform->pack(views);
  REQUIRE(!mixed);
  CHECK(mixed.error().code == errc::unsupported);
  CHECK(mixed.error().message.find("1 and 2 columns") != std::string::npos);
  CHECK(!platform->pack({}));
  const matrix_view empty = {.data = &value, .type = dtype::f32, .rows = 0, .columns = 1};
  CHECK(!platform->pack({&empty, 1}));
}
