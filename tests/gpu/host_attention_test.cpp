#include <cmath>

#include "tests/gpu/host_fixture.hpp"

using namespace yolk;
using namespace yolk::gpu;
using namespace yolk::gpu::host;

namespace {

constexpr std::uint64_t seed = 77001;

struct heads {
  std::uint32_t query, kv, dim, block_tokens;
};

/// One sequence of `length` tokens in shuffled blocks; every slot that no token owns holds NaN.
struct sequence {
  sequence(core::random_source& random, const heads& h, std::size_t length)
      : shape(h),
        count(length),
        memory(block_count(length) + 3, h.kv, h.dim, h.block_tokens),
        blocks(shuffled(random, block_count(length) + 3)),
        q(reference::random_bfloats(random, length * h.query * h.dim, 2.0f)) {
    blocks.resize(block_count(length));
    memory.write(random, blocks, length);
  }
  [[nodiscard]] std::uint32_t block_count(std::size_t length) const {
    return static_cast<std::uint32_t>((length + shape.block_tokens - 1) / shape.block_tokens);
  }
  [[nodiscard]] std::size_t width() const { return std::size_t{shape.query} * shape.dim; }
  [[nodiscard]] float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.dim)); }

  /// Attention for tokens [begin, end) as one span.
  void attend(device& on, std::size_t begin, std::size_t end, std::vector<float>& out) const {
    const row_span span = {.first_row = static_cast<std::uint32_t>(begin),
                           .row_count = static_cast<std::uint32_t>(end - begin),
                           .first_position = static_cast<std::uint32_t>(begin),
                           .blocks = std::span(blocks).first(block_count(end))};
    on.paged_attention({.q = q.data(),
                        .out = out.data(),
                        .query_head_count = shape.query,
                        .scale = scale(),
                        .kv = memory.view,
                        .spans = {&span, 1}});
  }

  heads shape;
  std::size_t count;
  paged_memory memory;
  std::vector<core::block_index> blocks;
  std::vector<float> q;
};

void check_row(const sequence& s, const std::vector<float>& out, std::size_t position) {
  for (std::uint32_t head = 0; head < s.shape.query; ++head) {
    const std::size_t at = position * s.width() + head * s.shape.dim;
    const std::vector<double> expected = reference::attention(
        &s.q[at], s.memory.view, head / (s.shape.query / s.shape.kv), s.blocks, position, s.scale());
    std::size_t wrong = 0;
    for (std::size_t d = 0; d < s.shape.dim; ++d) {
      wrong += !(std::abs(out[at + d] - expected[d]) <= 1e-5 * std::abs(expected[d]) + 1e-5);
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE(
    "attention agrees with double precision for heads, blocks and lengths, unused slots being poisoned") {
  MESSAGE("seed " << seed);
  const heads shapes[] = {{2, 2, 64, 16},  {4, 1, 64, 16},  {8, 2, 80, 16},  {3, 1, 96, 16},
                          {8, 8, 128, 16}, {2, 1, 256, 16}, {16, 2, 128, 8}, {4, 2, 64, 32},
                          {6, 2, 24, 24},  {70, 1, 16, 16}, {2, 1, 30, 8},   {4, 2, 8, 40}};
  for_every_isa([&](instruction_set isa) {
    running_device run(isa);
    core::random_source random(seed);
    for (const heads& h : shapes) {
      CAPTURE(h.query);
      CAPTURE(h.kv);
      CAPTURE(h.dim);
      CAPTURE(h.block_tokens);
      const std::size_t block = h.block_tokens;
      for (const std::size_t length : {std::size_t{1}, block - 1, block, block + 1, std::size_t{64},
                                       std::size_t{65}, std::size_t{150}}) {
        CAPTURE(length);
        const sequence s(random, h, length);
        std::vector<float> out(length * s.width());
        s.attend(*run.device, length - 1, length, out);
        check_row(s, out, length - 1);
        s.attend(*run.device, 0, length, out);
        check_row(s, out, 0);
        check_row(s, out, length / 2);
        check_row(s, out, length - 1);
      }
    }
  });
}

TEST_CASE("decoded rows, chunks of any size and a whole prefill give the same bits on any thread count") {
  MESSAGE("seed " << seed);
  for_every_isa([&](instruction_set isa) {
    for (const heads& h : {heads{8, 2, 64, 16}, heads{2, 2, 128, 16}, heads{6, 2, 80, 8}}) {
      core::random_source random(seed);
      const sequence s(random, h, 211);
      std::vector<float> whole(s.count * s.width());
      running_device run(isa, 3);
      s.attend(*run.device, 0, s.count, whole);
      running_device alone(isa, 1);
      for (const std::size_t chunk : {1u, 5u, 16u, 64u, 100u}) {
        CAPTURE(chunk);
        std::vector<float> out(whole.size());
        for (std::size_t begin = 0; begin < s.count; begin += chunk) {
          s.attend(*alone.device, begin, std::min(s.count, begin + chunk), out);
        }
        CHECK(same_bits(out.data(), whole.data(), whole.size()));
      }
    }
  });
}

TEST_CASE("a block's size does not change a bit") {
  for_every_isa([&](instruction_set isa) {
    std::vector<float> first;
    for (const std::uint32_t block_tokens : {8u, 16u, 64u, 128u}) {
      core::random_source random(seed);
      const heads h = {4, 2, 64, block_tokens};
      sequence s(random, h, 140);
      // The same tokens, whatever order the blocks came in.
      core::random_source content(seed + 1);
      s.q = reference::random_bfloats(content, s.q.size());
      s.memory.write(content, s.blocks, s.count);
      std::vector<float> out(s.count * s.width());
      running_device run(isa);
      s.attend(*run.device, 0, s.count, out);
      if (first.empty()) first = out;
      CHECK(same_bits(out.data(), first.data(), out.size()));
    }
  });
}

TEST_CASE("several spans of one batch, decode and prefill mixed, are each what they are alone") {
  for_every_isa([&](instruction_set isa) {
    core::random_source random(seed);
    const heads h = {8, 2, 64, 16};
    // Two sequences in one pool: rows 0..2 continue the first at 90, row 3 decodes the second at 40.
    const auto order = shuffled(random, 16);
    const paged_memory memory(16, h.kv, h.dim, h.block_tokens);
    const std::vector<core::block_index> first(order.begin(), order.begin() + 6);
    const std::vector<core::block_index> second(order.begin() + 6, order.begin() + 9);
    memory.write(random, first, 93);
    memory.write(random, second, 41);
    const std::size_t width = std::size_t{h.query} * h.dim;
    const std::vector<float> q = reference::random_bfloats(random, 4 * width);
    const row_span spans[] = {{.first_row = 0, .row_count = 3, .first_position = 90, .blocks = first},
                              {.first_row = 3, .row_count = 1, .first_position = 40, .blocks = second}};
    running_device run(isa);
    std::vector<float> together(4 * width), apart(4 * width);
    paged_attention_args args = {.q = q.data(),
                                 .out = together.data(),
                                 .query_head_count = h.query,
                                 .scale = 0.125f,
                                 .kv = memory.view,
                                 .spans = spans};
    run.device->paged_attention(args);
    args.out = apart.data();
    for (const row_span& span : spans) {
      args.spans = {&span, 1};
      run.device->paged_attention(args);
    }
    CHECK(same_bits(together.data(), apart.data(), together.size()));
    const std::vector<double> expected =
        reference::attention(&q[3 * width], memory.view, 0, second, 40, 0.125);
    for (std::size_t d = 0; d < h.dim; ++d)
      CHECK(together[3 * width + d] == doctest::Approx(expected[d]).epsilon(1e-4));
  });
}

TEST_CASE("a dominant key far away takes all the weight, and scores of any size stay finite") {
  for_every_isa([&](instruction_set isa) {
    core::random_source random(seed);
    const heads h = {1, 1, 64, 16};
    sequence s(random, h, 200);
    for (float& value : s.q) value *= 3000.0f;
    std::vector<float> out(s.count * s.width());
    running_device run(isa);
    s.attend(*run.device, 0, s.count, out);
    check_row(s, out, 0);
    for (const float value : out) REQUIRE(std::isfinite(value));
  });
}
