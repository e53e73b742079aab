#include <cmath>
#include <limits>

#include "tests/gpu/host_fixture.hpp"

using namespace yolk;
using namespace yolk::gpu;
using namespace yolk::gpu::host;

namespace {

constexpr std::uint64_t seed = 20240611;

struct shape {
  std::size_t rows, outputs, inputs;
};

struct problem {
  problem(core::random_source& random, const shape& s)
      : size(s),
        x(reference::random_bfloats(random, s.rows * stride())),
        w(reference::random_bfloats(random, s.outputs * s.inputs)),
        bias(reference::random_bfloats(random, s.outputs)),
        y(reference::random_bfloats(random, s.rows * y_stride())) {}
  [[nodiscard]] std::size_t stride() const { return size.inputs + 3; }
  [[nodiscard]] std::size_t y_stride() const { return size.outputs + 5; }

  shape size;
  std::vector<float> x, w, bias, y;
};

gemm_args arguments(const problem& p, const weight_matrix& weights, std::vector<float>& y) {
  return {.x = p.x.data(),
          .x_stride = p.stride(),
          .weights = &weights,
          .y = y.data(),
          .y_stride = p.y_stride(),
          .row_count = p.size.rows};
}

/// Float sums over K terms err by less than this share of the terms' magnitudes.
double tolerance(const problem& p) {
  return 2e-7 * (4.0 + std::sqrt(static_cast<double>(p.size.inputs)));
}

void check_against_reference(const problem& p, const std::vector<float>& y, bool with_bias, bool accumulate) {
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < p.size.rows; ++row) {
    for (std::size_t n = 0; n < p.y_stride(); ++n) {
      const std::size_t at = row * p.y_stride() + n;
      if (n >= p.size.outputs) {
        wrong += y[at] != p.y[at];  // what lies between rows is not ours
        continue;
      }
      reference::sum expected =
          reference::dot(&p.x[row * p.stride()], &p.w[n * p.size.inputs], p.size.inputs);
      if (with_bias) expected.value += p.bias[n];
      if (accumulate) expected.value += p.y[at];
      wrong += !(std::abs(y[at] - expected.value) <= tolerance(p) * (expected.magnitude + 2.0));
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("gemm agrees with double precision for every shape, bias, accumulation and stride") {
  MESSAGE("seed " << seed);
  const shape shapes[] = {{1, 64, 64},   {1, 1, 1},      {1, 65, 2},    {2, 130, 129},
                          {3, 100, 64},  {5, 64, 257},   {6, 200, 128}, {7, 72, 130},
                          {8, 128, 300}, {12, 65, 77},   {13, 64, 66},  {16, 190, 150},
                          {25, 64, 131}, {64, 129, 200}, {300, 70, 65}, {512, 64, 40}};
  for_every_isa([&](instruction_set isa) {
    running_device run(isa);
    core::random_source random(seed);
    for (const shape& s : shapes) {
      CAPTURE(s.rows);
      CAPTURE(s.outputs);
      CAPTURE(s.inputs);
      const problem p(random, s);
      const auto weights = run.pack_floats(p.w, s.outputs, s.inputs);
      for (const bool with_bias : {false, true}) {
        for (const bool accumulate : {false, true}) {
          std::vector<float> y = p.y;
          gemm_args args = arguments(p, *weights, y);
          args.bias = with_bias ? p.bias.data() : nullptr;
          args.accumulate = accumulate;
          run.device->gemm(args);
          check_against_reference(p, y, with_bias, accumulate);
        }
      }
    }
  });
}

TEST_CASE("a gemm row has the same bits whatever rows and threads are beside it") {
  MESSAGE("seed " << seed);
  for_every_isa([&](instruction_set isa) {
    core::random_source random(seed);
    const problem p(random, {512, 200, 330});
    running_device alone(isa, 1);
    const auto weights = alone.pack_floats(p.w, p.size.outputs, p.size.inputs);
    std::vector<float> single = p.y;
    for (std::size_t row = 0; row < p.size.rows; ++row) {
      gemm_args args = arguments(p, *weights, single);
      args.x += row * p.stride();
      args.y += row * p.y_stride();
      args.row_count = 1;
      alone.device->gemm(args);
    }
    for (const unsigned threads : {1u, 3u}) {
      running_device run(isa, threads);
      const auto same_weights = run.pack_floats(p.w, p.size.outputs, p.size.inputs);
      for (const std::size_t rows : {2u, 3u, 7u, 8u, 12u, 13u, 16u, 64u, 300u, 512u}) {
        CAPTURE(rows);
        std::vector<float> y = p.y;
        gemm_args args = arguments(p, *same_weights, y);
        args.row_count = rows;
        run.device->gemm(args);
        CHECK(same_bits(y.data(), single.data(), rows * p.y_stride()));
      }
    }
  });
}

TEST_CASE("AVX2 and AVX-512 multiply to the same bits") {
  const auto sets = available_instruction_sets();
  const auto has = [&](instruction_set isa) {
    return std::find(sets.begin(), sets.end(), isa) != sets.end();
  };
  if (!has(instruction_set::avx2) || !has(instruction_set::avx512)) return;
  core::random_source random(seed);
  const problem p(random, {70, 130, 333});
  std::vector<float> results[2] = {p.y, p.y};
  const instruction_set both[2] = {instruction_set::avx2, instruction_set::avx512};
  for (int i = 0; i < 2; ++i) {
    running_device run(both[i]);
    const auto weights = run.pack_floats(p.w, p.size.outputs, p.size.inputs);
    run.device->gemm(arguments(p, *weights, results[i]));
  }
  CHECK(same_bits(results[0].data(), results[1].data(), results[0].size()));
}

TEST_CASE("activations that are no bf16 numbers keep float precision, or bf16's where numerics says so") {
  for_every_isa([&](instruction_set isa) {
    core::random_source random(seed);
    problem p(random, {9, 64, 256});
    for (float& value : p.x) value *= 1.0009765f;
    running_device run(isa);
    const auto weights = run.pack_floats(p.w, p.size.outputs, p.size.inputs);
    std::vector<float> y = p.y;
    run.device->gemm(arguments(p, *weights, y));
    const bool rounds = run.platform->numerics() == "host-bfloat16-dot-1";
    CHECK(rounds == (isa == instruction_set::avx512_bf16));
    const double share = rounds ? 0x1.0p-8 : tolerance(p);
    for (std::size_t row = 0; row < p.size.rows; ++row) {
      for (std::size_t n = 0; n < p.size.outputs; ++n) {
        const reference::sum expected =
            reference::dot(&p.x[row * p.stride()], &p.w[n * p.size.inputs], p.size.inputs);
        REQUIRE(std::abs(y[row * p.y_stride() + n] - expected.value) <= share * expected.magnitude);
      }
    }
  });
}

TEST_CASE("an infinite activation reaches only its own row") {
  for_every_isa([&](instruction_set isa) {
    core::random_source random(seed);
    problem p(random, {9, 70, 65});
    p.x[4 * p.stride() + 64] = std::numeric_limits<float>::infinity();
    running_device run(isa);
    const auto weights = run.pack_floats(p.w, p.size.outputs, p.size.inputs);
    std::vector<float> y = p.y;
    run.device->gemm(arguments(p, *weights, y));
    for (std::size_t row = 0; row < p.size.rows; ++row) {
      for (std::size_t n = 0; n < p.size.outputs; ++n) {
        const bool expected = row != 4;
        REQUIRE(std::isfinite(y[row * p.y_stride() + n]) == expected);
      }
    }
  });
}
