// Invariant 2: a sequence's logits have the same bits whatever else ran with it, however it was cut, wherever
// its blocks lie and whichever of them were there already.
#include <doctest/doctest.h>

#include <cstring>
#include <map>

#include "tests/model/paged_runner.hpp"
#include "tests/model/test_platforms.hpp"

using namespace yolk;
using namespace yolk::model;
using namespace yolk::model::testing;

namespace {

using row_bits = std::vector<float>;

bool same_bits(const row_bits& a, const row_bits& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// A prompt and the tokens that follow it, given: so that every run computes the same thing.
struct story {
  std::vector<core::token_id> tokens;
  std::uint32_t prompt_length = 0;
};

story random_story(core::random_source& random, std::uint32_t vocabulary, std::uint32_t prompt,
                   std::uint32_t more) {
  return {random_tokens(random, prompt + more, vocabulary), prompt};
}

/// A sequence on its way: how far it has come and what its logits were at each token that wanted them.
struct traveller {
  const story* text = nullptr;
  std::vector<core::block_index> blocks;
  std::uint32_t computed = 0;
  std::uint32_t chunk = 0;
  std::map<std::uint32_t, row_bits> logits;  ///< after the token at this position

  [[nodiscard]] bool finished() const { return computed == text->tokens.size(); }
  /// The next chunk of the prompt, or one token behind it.
  [[nodiscard]] step_slice next(const paged_runner& runner) const {
    const std::uint32_t left = computed < text->prompt_length ? text->prompt_length - computed : 1;
    const std::uint32_t count = std::min(left, chunk);
    const auto begin = text->tokens.begin() + computed;
    step_slice slice{.tokens = {begin, begin + count}, .first_position = computed, .blocks = blocks};
    if (computed + count >= text->prompt_length) slice.samplers = runner.wanted();
    return slice;
  }
};

void step_all(paged_runner& runner, const std::vector<traveller*>& all, core::random_source* shuffle) {
  std::vector<traveller*> order;
  for (traveller* each : all)
    if (!each->finished()) order.push_back(each);
  if (shuffle != nullptr)
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[shuffle->below(i)]);
  std::vector<step_slice> slices;
  for (const traveller* each : order) slices.push_back(each->next(runner));
  auto logits = runner.run(slices);
  std::size_t row = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i]->computed += static_cast<std::uint32_t>(slices[i].tokens.size());
    if (!slices[i].samplers.empty()) order[i]->logits[order[i]->computed - 1] = std::move(logits[row++]);
  }
}

traveller start(paged_runner& runner, const story& text, std::uint32_t chunk) {
  return {.text = &text,
          .blocks = runner.blocks_for(static_cast<std::uint32_t>(text.tokens.size())),
          .chunk = chunk};
}

void check_same(const traveller& one, const traveller& alone) {
  REQUIRE(one.logits.size() == alone.logits.size());
  for (const auto& [position, row] : alone.logits) {
    CAPTURE(position);
    CHECK(same_bits(one.logits.at(position), row));
  }
}

constexpr std::uint32_t whole = 512;

/// Each variant gets a pool of its own, with its own order of blocks.
void check_platform(gpu::platform& platform, const random_shape& shape, std::uint64_t seed) {
  core::random_source random(seed);
  const auto loaded = load_random_model(make_random_model(shape, random()), platform);
  REQUIRE(loaded.has_value());
  const story text = random_story(random, shape.vocabulary, 83, 6);
  const auto new_runner = [&] { return paged_runner(*loaded, platform, 160, 700, random()); };

  paged_runner baseline_runner = new_runner();
  traveller alone = start(baseline_runner, text, whole);
  while (!alone.finished()) step_all(baseline_runner, {&alone}, nullptr);
  REQUIRE(alone.logits.size() == 7);
  for (const auto& [position, row] : alone.logits)
    for (const float logit : row) REQUIRE(std::isfinite(logit));

  for (const std::uint32_t chunk : {1u, 5u, 16u, 64u, whole}) {
    for (const std::size_t batch : {1u, 2u, 7u, 16u}) {
      if (batch > 2 && chunk == 5) continue;
      CAPTURE(chunk);
      CAPTURE(batch);
      paged_runner runner = new_runner();
      traveller one = start(runner, text, chunk);
      std::vector<story> stories;
      std::vector<traveller> others;
      for (std::size_t i = 1; i < batch; ++i)
        stories.push_back(random_story(random, shape.vocabulary, 1 + std::uint32_t(random.below(60)),
                                       1 + std::uint32_t(random.below(60))));
      for (const story& each : stories)
        others.push_back(start(runner, each, 1 + std::uint32_t(random.below(40))));
      std::vector<traveller*> all = {&one};
      for (traveller& each : others) {
        for (std::uint64_t i = random.below(3); i > 0; --i) step_all(runner, {&each}, nullptr);
        all.push_back(&each);
      }
      while (!one.finished()) step_all(runner, all, &random);
      check_same(one, alone);
    }
  }
}

/// The first blocks come from another sequence with the same beginning.
void check_cached_prefixes(gpu::platform& platform, const random_shape& shape, std::uint64_t seed) {
  core::random_source random(seed);
  const auto loaded = load_random_model(make_random_model(shape, random()), platform);
  REQUIRE(loaded.has_value());
  const story text = random_story(random, shape.vocabulary, 83, 4);
  paged_runner runner(*loaded, platform, 100, 700, random());
  traveller alone = start(runner, text, whole);
  while (!alone.finished()) step_all(runner, {&alone}, nullptr);
  for (const std::uint32_t cached_blocks : {0u, 1u, 5u}) {
    CAPTURE(cached_blocks);
    story prefix{{text.tokens.begin(), text.tokens.begin() + cached_blocks * 16 + 3}, cached_blocks * 16 + 3};
    prefix.tokens.back() ^= 1;  // goes another way behind the shared blocks
    traveller other = start(runner, prefix, 7);
    while (!other.finished()) step_all(runner, {&other}, nullptr);
    traveller one = start(runner, text, 30);
    std::copy(other.blocks.begin(), other.blocks.begin() + cached_blocks, one.blocks.begin());
    one.computed = cached_blocks * 16;
    while (!one.finished()) step_all(runner, {&one}, nullptr);
    check_same(one, alone);
  }
}

}  // namespace

TEST_CASE(
    "a sequence's logits are the same bits alone and in any batch, for any chunks and any block table") {
  const std::uint64_t seed = 99;
  MESSAGE("seed ", seed);
  for (const auto& platform : test_platforms()) {
    CAPTURE(platform->description());
    check_platform(*platform, {}, seed);
    check_platform(*platform, {.family = "qwen3", .layers = 2, .query_heads = 6, .kv_heads = 2}, seed + 1);
    if (platform->kind() != "reference") {
      // Sizes at which the kernels work in whole tiles, and sizes at which they do not.
      check_platform(*platform,
                     {.layers = 2,
                      .hidden = 256,
                      .inner = 640,
                      .query_heads = 4,
                      .kv_heads = 2,
                      .head_dim = 64,
                      .vocabulary = 512},
                     seed + 2);
      check_platform(*platform,
                     {.family = "qwen2", .layers = 2, .hidden = 50, .inner = 71, .vocabulary = 101},
                     seed + 3);
    }
  }
}

TEST_CASE("a sequence's logits are the same bits when none, one or many of its blocks were there already") {
  const std::uint64_t seed = 123;
  MESSAGE("seed ", seed);
  for (const auto& platform : test_platforms()) {
    CAPTURE(platform->description());
    check_cached_prefixes(*platform, {}, seed);
    check_cached_prefixes(*platform, {.family = "qwen2", .head_dim = 32}, seed);
  }
}
