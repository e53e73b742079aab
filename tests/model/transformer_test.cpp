#include "model/transformer.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/model/paged_runner.hpp"
#include "tests/model/reference_model.hpp"
#include "tests/model/test_platforms.hpp"

using namespace yolk;
using namespace yolk::model;
using namespace yolk::model::testing;

namespace {

/// Largest difference of a logit, in units of its row's largest one. Float sums alone differ by some 1e-7;
/// where an activation lies on the border of two bf16 values, K or V is stored 2⁻⁹ of itself away from the
/// reference's.
constexpr double bound = 1e-3;
/// bf16 dot products round every activation to 2⁻⁹ of itself before it is multiplied.
constexpr double rounded_activations_bound = 2e-2;

bool rounds_activations(const gpu::platform& platform) {
  return platform.description().find("bf16 dot products") != std::string::npos;
}

struct named_shape {
  std::string name;
  random_shape shape;
};

std::vector<named_shape> shapes() {
  const nlohmann::json llama3 = {{"rope_scaling",
                                  {{"rope_type", "llama3"},
                                   {"factor", 8.0},
                                   {"low_freq_factor", 1.0},
                                   {"high_freq_factor", 4.0},
                                   {"original_max_position_embeddings", 64}}}};
  const nlohmann::json linear = {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.5}}}};
  return {
      {"llama, BF16", {}},
      {"llama, F32, tied", {.dtype = "F32", .tied = true}},
      {"llama, F16, misaligned", {.dtype = "F16", .padding = 3}},
      {"llama, F32, misaligned", {.dtype = "F32", .padding = 1}},
      {"llama, no GQA", {.query_heads = 4, .kv_heads = 4}},
      {"llama, one KV head", {.query_heads = 8, .kv_heads = 1}},
      {"llama, llama3 scaling", {.extra = llama3}},
      {"llama, linear scaling", {.extra = linear}},
      {"mistral, 3 query heads a KV head", {.family = "mistral", .query_heads = 6, .kv_heads = 2}},
      {"qwen2, biases", {.family = "qwen2"}},
      {"qwen2, biases in F16, tied", {.family = "qwen2", .dtype = "F16", .tied = true}},
      {"qwen3, q and k norms, wide heads", {.family = "qwen3", .head_dim = 32}},
      {"qwen3, F32, tied",
       {.family = "qwen3", .dtype = "F32", .query_heads = 6, .kv_heads = 3, .tied = true}},
      {"llama, odd sizes", {.hidden = 50, .inner = 71, .vocabulary = 101}},
      {"llama, heads of 64", {.hidden = 128, .inner = 352, .query_heads = 4, .kv_heads = 2, .head_dim = 64}},
      {"one layer", {.layers = 1}},
  };
}

}  // namespace

TEST_CASE("logits agree with a double-precision reference for every family, type and shape") {
  const std::uint64_t seed = 1234;
  MESSAGE("seed ", seed);
  for (const auto& platform : test_platforms()) {
    for (const named_shape& each : shapes()) {
      CAPTURE(platform->description());
      CAPTURE(each.name);
      const random_model model = make_random_model(each.shape, seed);
      const auto loaded = load_random_model(model, *platform, each.shape.padding);
      if (!loaded) FAIL(loaded.error().message);
      core::random_source random(seed);
      const std::vector<core::token_id> tokens = random_tokens(random, 37, each.shape.vocabulary);
      const reference_model::rows expected = reference_model(model).logits(tokens);

      paged_runner runner(*loaded, *platform, 8, 16, seed);
      step_slice slice{.blocks = runner.blocks_for(37), .samplers = runner.wanted()};
      double worst = 0;
      // Chunks of odd sizes: what is compared is each chunk's last token.
      for (std::uint32_t begin = 0, size = 1; begin < tokens.size(); begin += size, size = size % 7 + 1) {
        const auto end = std::min<std::size_t>(tokens.size(), begin + size);
        slice.tokens.assign(tokens.begin() + begin, tokens.begin() + std::ptrdiff_t(end));
        slice.first_position = begin;
        const auto logits = runner.run({&slice, 1});
        REQUIRE(logits.size() == 1);
        const std::vector<double>& want = expected[end - 1];
        double scale = 0;
        for (const double value : want) scale = std::max(scale, std::abs(value));
        for (std::size_t i = 0; i < want.size(); ++i)
          worst = std::max(worst, std::abs(logits[0][i] - want[i]) / scale);
      }
      CAPTURE(worst);
      CHECK(worst < (rounds_activations(*platform) ? rounded_activations_bound : bound));
    }
  }
}

TEST_CASE("a wrong weight, bias, norm or scaling would be seen by the comparison") {
  reference_platform platform;
  const random_shape shape{.family = "qwen3"};
  const random_model model = make_random_model(shape, 5);
  const auto loaded = load_random_model(model, platform);
  REQUIRE(loaded.has_value());
  core::random_source random(5);
  const std::vector<core::token_id> tokens = random_tokens(random, 20, shape.vocabulary);
  paged_runner runner(*loaded, platform, 4, 32, 5);
  const step_slice slice{.tokens = tokens, .blocks = runner.blocks_for(20), .samplers = runner.wanted()};
  const std::vector<float> logits = runner.run({&slice, 1})[0];
  for (const char* name : {"model.layers.1.self_attn.q_norm.weight", "model.layers.2.self_attn.v_proj.weight",
                           "model.layers.0.mlp.up_proj.weight", "model.norm.weight", "lm_head.weight"}) {
    random_model changed = model;
    for (double& value : changed.values.at(name)) value *= 1.1;
    const std::vector<double> want = reference_model(changed).logits(tokens).back();
    double scale = 0;
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      scale = std::max(scale, std::abs(want[i]));
      worst = std::max(worst, std::abs(logits[i] - want[i]));
    }
    CAPTURE(std::string(name));
    CHECK(worst / scale > bound);
  }
}

TEST_CASE("each layer is announced once, in order, with or without logits") {
  reference_platform platform;
  const auto loaded = load_random_model(make_random_model({.layers = 4}, 8), platform);
  REQUIRE(loaded.has_value());
  paged_runner runner(*loaded, platform, 4, 32, 1);
  step_slice slice{.tokens = {1, 2, 3}, .blocks = runner.blocks_for(3)};
  CHECK(runner.run({&slice, 1}).empty());
  CHECK(runner.layers_seen() == std::vector<std::uint32_t>{0, 1, 2, 3});
  slice.samplers = runner.wanted();
  CHECK(runner.run({&slice, 1}).size() == 1);
  CHECK(runner.layers_seen() == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(runner.run({}).empty());
}

TEST_CASE("more slices want logits than are computed at a time") {
  reference_platform platform;
  const auto loaded = load_random_model(make_random_model({.layers = 2}, 8), platform);
  REQUIRE(loaded.has_value());
  const std::size_t count = 2 * transformer::logit_rows + 5;
  paged_runner runner(*loaded, platform, 200, 200, 1);
  std::vector<step_slice> slices;
  for (std::size_t i = 0; i < count; ++i) {
    slices.push_back({.tokens = {core::token_id(i), 3}, .blocks = runner.blocks_for(2)});
    if (i % 3 != 1) slices.back().samplers = runner.wanted();
  }
  const auto together = runner.run(slices);
  std::size_t at = 0;
  for (const step_slice& slice : slices) {
    if (slice.samplers.empty()) continue;
    CHECK(runner.run({&slice, 1})[0] == together[at++]);
  }
  CHECK(at == together.size());
}
