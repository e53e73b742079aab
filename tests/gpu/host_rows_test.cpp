#include <cmath>

#include "tests/gpu/host_fixture.hpp"

using namespace yolk;
using namespace yolk::gpu;
using namespace yolk::gpu::host;

namespace {
constexpr std::uint64_t seed = 515;
}

TEST_CASE(
    "rms_norm agrees with double precision, in place and with strides, and does not depend on other rows") {
  MESSAGE("seed " << seed);
  for_every_isa([&](instruction_set isa) {
    running_device run(isa);
    core::random_source random(seed);
    for (const std::size_t columns : {1u, 15u, 16u, 64u, 100u, 128u, 1024u, 1030u}) {
      CAPTURE(columns);
      const std::size_t rows = 70, stride = columns + 7;
      std::vector<float> x = reference::random_bfloats(random, rows * stride, 3.0f);
      const std::vector<float> weight = reference::random_bfloats(random, columns);
      const std::vector<float> before = x;
      std::vector<float> single(columns);
      run.device->rms_norm({.x = &x[5 * stride],
                            .x_stride = stride,
                            .weight = weight.data(),
                            .out = single.data(),
                            .out_stride = columns,
                            .row_count = 1,
                            .columns = columns});
      run.device->rms_norm({.x = x.data(),
                            .x_stride = stride,
                            .weight = weight.data(),
                            .out = x.data(),
                            .out_stride = stride,
                            .row_count = rows,
                            .columns = columns});
      CHECK(same_bits(&x[5 * stride], single.data(), columns));
      for (std::size_t row = 0; row < rows; ++row) {
        const auto expected = reference::rms_norm(&before[row * stride], weight.data(), columns, 1e-5);
        for (std::size_t i = 0; i < columns; ++i) {
          REQUIRE(std::abs(x[row * stride + i] - expected[i]) <= 1e-6 * std::abs(expected[i]) + 1e-12);
        }
        for (std::size_t i = columns; i < stride; ++i)
          REQUIRE(x[row * stride + i] == before[row * stride + i]);
      }
    }
  });
}

TEST_CASE("swiglu agrees with double precision from the far negative to the far positive") {
  for_every_isa([&](instruction_set isa) {
    running_device run(isa);
    core::random_source random(seed);
    for (const std::size_t inner : {1u, 16u, 77u, 4864u}) {
      const std::size_t rows = 3, stride = 2 * inner + 1;
      std::vector<float> x = reference::random_bfloats(random, rows * stride, 8.0f);
      x[0] = -200.0f;
      x[stride] = 200.0f;
      x[2 * stride] = 0.0f;
      std::vector<float> out(rows * inner);
      run.device->swiglu({.gate_up = x.data(),
                          .gate_up_stride = stride,
                          .out = out.data(),
                          .out_stride = inner,
                          .row_count = rows,
                          .inner = inner});
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t i = 0; i < inner; ++i) {
          const double expected =
              reference::silu(x[row * stride + i]) * static_cast<double>(x[row * stride + inner + i]);
          REQUIRE(std::abs(out[row * inner + i] - expected) <= 1e-6 * std::abs(expected) + 1e-30);
        }
      }
    }
  });
}

TEST_CASE("embed gives back the rows of a packed table, widened") {
  for_every_isa([&](instruction_set isa) {
    running_device run(isa);
    core::random_source random(seed);
    for (const std::size_t columns : {1u, 64u, 101u}) {
      const std::vector<float> table = reference::random_bfloats(random, 150 * columns);
      const auto packed = run.pack_floats(table, 150, columns);
      const std::vector<core::token_id> tokens = {149, 0, 63, 64, 65, 63};
      std::vector<float> out(tokens.size() * columns);
      run.device->embed({.table = packed.get(), .tokens = tokens, .out = out.data()});
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        CHECK(same_bits(&out[i * columns], &table[tokens[i] * columns], columns));
      }
    }
  });
}

namespace {

struct rope_case {
  std::uint32_t query, kv, dim, block_tokens;
  bool normed;
};

struct rope_problem {
  rope_problem(core::random_source& random, const rope_case& c)
      : shape(c),
        memory(8, c.kv, c.dim, c.block_tokens),
        blocks(shuffled(random, 8)),
        qkv(reference::random_bfloats(random, rows * stride())),
        q(rows * c.query * c.dim, -1.0f),
        q_norm(reference::random_bfloats(random, c.dim)),
        k_norm(reference::random_bfloats(random, c.dim)),
        cosine(positions * c.dim / 2),
        sine(positions * c.dim / 2) {
    for (std::size_t i = 0; i < cosine.size(); ++i) {
      cosine[i] = static_cast<float>(std::cos(0.37 * static_cast<double>(i)));
      sine[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i)));
    }
  }
  [[nodiscard]] std::size_t stride() const {
    return (shape.query + 2 * shape.kv) * std::size_t{shape.dim} + 4;
  }
  [[nodiscard]] rope_scatter_args arguments(std::span<const row_span> spans) {
    return {.qkv = qkv.data(),
            .qkv_stride = stride(),
            .q = q.data(),
            .query_head_count = shape.query,
            .q_norm = shape.normed ? q_norm.data() : nullptr,
            .k_norm = shape.normed ? k_norm.data() : nullptr,
            .cosine = cosine.data(),
            .sine = sine.data(),
            .kv = memory.view,
            .spans = spans};
  }
  [[nodiscard]] std::vector<double> expected_head(const float* x, const std::vector<float>& norm,
                                                  std::size_t position) const {
    std::vector<double> head(x, x + shape.dim);
    if (shape.normed) head = reference::rms_norm(x, norm.data(), shape.dim, 1e-6);
    return reference::rotate(head, &cosine[position * shape.dim / 2], &sine[position * shape.dim / 2]);
  }
  void check(std::size_t row, std::size_t position) const {
    const float* x = &qkv[row * stride()];
    for (std::uint32_t head = 0; head < shape.query; ++head, x += shape.dim) {
      const auto expected = expected_head(x, q_norm, position);
      for (std::size_t d = 0; d < shape.dim; ++d) {
        REQUIRE(std::abs(q[(row * shape.query + head) * shape.dim + d] - expected[d]) <= 1e-6);
      }
    }
    for (std::uint32_t head = 0; head < shape.kv; ++head, x += shape.dim) {
      const auto expected = expected_head(x, k_norm, position);
      const std::uint16_t* k = reference::kv_vector(memory.view, head, false, blocks, position);
      for (std::size_t d = 0; d < shape.dim; ++d) {
        REQUIRE(std::abs(core::to_float({k[d]}) - expected[d]) <= 0x1.02p-8 * std::abs(expected[d]) + 1e-6);
      }
    }
    for (std::uint32_t head = 0; head < shape.kv; ++head, x += shape.dim) {
      const std::uint16_t* v = reference::kv_vector(memory.view, head, true, blocks, position);
      for (std::size_t d = 0; d < shape.dim; ++d) REQUIRE(v[d] == core::to_bfloat16(x[d]).bits);
    }
  }

  static constexpr std::size_t rows = 21;
  static constexpr std::size_t positions = 128;
  rope_case shape;
  paged_memory memory;
  std::vector<core::block_index> blocks;
  std::vector<float> qkv, q, q_norm, k_norm, cosine, sine;
};

}  // namespace

TEST_CASE("rope_scatter rotates, normalises and writes each token's slot, and no other byte") {
  MESSAGE("seed " << seed);
  for_every_isa([&](instruction_set isa) {
    running_device run(isa);
    core::random_source random(seed);
    for (const rope_case& c : {rope_case{4, 2, 64, 16, false}, rope_case{2, 1, 80, 16, true},
                               rope_case{3, 3, 128, 8, true}, rope_case{2, 1, 24, 16, false}}) {
      CAPTURE(c.dim);
      rope_problem p(random, c);
      // One token far into the sequence (row 0) and twenty that begin inside a block.
      const row_span spans[] = {
          {.first_row = 0, .row_count = 1, .first_position = 60, .blocks = p.blocks},
          {.first_row = 1, .row_count = 20, .first_position = 13, .blocks = std::span(p.blocks).first(5)}};
      run.device->rope_scatter(p.arguments(spans));
      p.check(0, 60);
      for (std::size_t i = 0; i < 20; ++i) p.check(1 + i, 13 + i);
      std::size_t written = 0;
      for (const std::byte byte : p.memory.memory) written += byte != std::byte{0xff};
      CHECK(written <= 21u * 2 * c.kv * c.dim * 2);
      CHECK(written >= 21u * 2 * c.kv * c.dim * 2 * 9 / 10);
    }
  });
}

TEST_CASE("what AVX2 and AVX-512 compute row by row is the same, bit for bit") {
  std::vector<std::vector<float>> results;
  for (const instruction_set isa : available_instruction_sets()) {
    if (isa == instruction_set::plain) continue;
    running_device run(isa);
    core::random_source random(seed);
    rope_problem p(random, {4, 2, 80, 16, true});
    const row_span span = {.first_row = 0, .row_count = 21, .first_position = 0, .blocks = p.blocks};
    run.device->rope_scatter(p.arguments({&span, 1}));
    std::vector<float> attended(p.q.size());
    run.device->paged_attention({.q = p.q.data(),
                                 .out = attended.data(),
                                 .query_head_count = 4,
                                 .scale = 0.1f,
                                 .kv = p.memory.view,
                                 .spans = {&span, 1}});
    std::vector<float> gated(21 * 160);
    run.device->swiglu({.gate_up = attended.data(),
                        .gate_up_stride = 320,
                        .out = gated.data(),
                        .out_stride = 160,
                        .row_count = 21,
                        .inner = 160});
    p.q.insert(p.q.end(), attended.begin(), attended.end());
    p.q.insert(p.q.end(), gated.begin(), gated.end());
    results.push_back(p.q);
  }
  for (const auto& result : results) CHECK(same_bits(result.data(), results[0].data(), result.size()));
}
