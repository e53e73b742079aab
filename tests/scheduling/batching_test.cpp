#include "scheduling/batching.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "core/random.hpp"

using namespace yolk;
using namespace yolk::scheduling;

namespace {

std::vector<std::pair<std::uint32_t, std::uint32_t>> batch(const std::vector<std::uint32_t>& remaining,
                                                           std::uint32_t budget, std::uint32_t max_slices) {
  std::vector<pending_prefill> pending;
  for (const auto tokens : remaining) pending.push_back({tokens});
  std::vector<std::pair<std::uint32_t, std::uint32_t>> made;
  for (const auto& part : form_prefill_batch(pending, budget, max_slices))
    made.emplace_back(part.index, part.token_count);
  return made;
}

using expected = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
constexpr std::uint32_t largest = std::numeric_limits<std::uint32_t>::max();

}  // namespace

TEST_CASE("short prompts are packed, the last is cut where the budget ends") {
  CHECK(batch({10, 20, 30}, 512, 8) == expected{{0, 10}, {1, 20}, {2, 30}});
  CHECK(batch({10, 20, 30}, 35, 8) == expected{{0, 10}, {1, 20}, {2, 5}});
  CHECK(batch({10, 20, 30}, 30, 8) == expected{{0, 10}, {1, 20}});
  CHECK(batch({4096, 1}, 512, 8) == expected{{0, 512}});
}

TEST_CASE("no more slices than allowed, and what has nothing to compute takes none") {
  CHECK(batch({1, 1, 1, 1}, 512, 2) == expected{{0, 1}, {1, 1}});
  CHECK(batch({0, 5, 0, 7}, 512, 2) == expected{{1, 5}, {3, 7}});
  CHECK(batch({0, 0}, 512, 2).empty());
  CHECK(batch({}, 512, 2).empty());
}

TEST_CASE("a budget or slice limit of nothing still makes progress") {
  CHECK(batch({10, 20}, 0, 8) == expected{{0, 1}});
  CHECK(batch({10, 20}, 16, 0) == expected{{0, 10}});
}

TEST_CASE("prompts whose sum overflows 32 bits do not overflow the budget") {
  CHECK(batch({largest, largest}, largest, 8) == expected{{0, largest}});
  CHECK(batch({largest - 1, largest}, largest, 8) == expected{{0, largest - 1}, {1, 1}});
}

TEST_CASE("a batch keeps the budget and the order, whatever is pending") {
  const std::uint64_t seed = 20'240'607;
  MESSAGE("seed ", seed);
  core::random_source random(seed);
  for (int round = 0; round < 5000; ++round) {
    CAPTURE(round);
    std::vector<pending_prefill> pending(random.below(round % 100 == 0 ? 10'000 : 12));
    std::uint64_t waiting = 0;
    for (auto& prompt : pending) {
      prompt.remaining_tokens =
          static_cast<std::uint32_t>(random.below(4) == 0 ? random() : random.below(40));
      waiting += prompt.remaining_tokens;
    }
    const auto budget = static_cast<std::uint32_t>(random.below(1 + (round % 7) * 300));
    const auto max_slices = static_cast<std::uint32_t>(random.below(9));
    const auto made = form_prefill_batch(pending, budget, max_slices);
    REQUIRE(made.empty() == (waiting == 0));
    REQUIRE(made.size() <= std::max(max_slices, 1u));
    std::uint64_t sum = 0;
    std::size_t next = 0;
    for (std::size_t i = 0; i < made.size(); ++i) {
      // Nobody who has tokens left is passed over, and only the last one is cut.
      while (next < pending.size() && pending[next].remaining_tokens == 0) ++next;
      REQUIRE(made[i].index == next);
      REQUIRE(made[i].token_count > 0);
      REQUIRE(made[i].token_count <= pending[next].remaining_tokens);
      if (i + 1 < made.size()) REQUIRE(made[i].token_count == pending[next].remaining_tokens);
      sum += made[i].token_count;
      ++next;
    }
    REQUIRE(sum <= std::max(budget, 1u));
    // It stops for one of three reasons only: budget, slices, or nothing more to do.
    if (made.size() < std::max(max_slices, 1u))
      REQUIRE(sum == std::min<std::uint64_t>(std::max(budget, 1u), waiting));
  }
}

TEST_CASE("many short prompts fill a budget without padding") {
  const std::uint64_t seed = 101;
  MESSAGE("seed ", seed);
  core::random_source random(seed);
  std::vector<std::uint32_t> lengths;
  for (int i = 0; i < 64; ++i) lengths.push_back(static_cast<std::uint32_t>(10 + random.below(491)));
  std::uint64_t sum = 0;
  std::uint64_t steps = 0;
  std::vector<std::uint32_t> left = lengths;
  for (; !left.empty(); ++steps) {
    const auto made = batch(left, 512, 64);
    for (const auto& [index, tokens] : made) {
      left[index] -= tokens;
      sum += tokens;
    }
    std::erase(left, 0u);
  }
  std::uint64_t all = 0;
  for (const auto length : lengths) all += length;
  CHECK(sum == all);
  CHECK(static_cast<double>(all) >= 0.95 * 512.0 * static_cast<double>(steps));
  // Padded to the longest, as a batch of rows would be, it is about twice as much: 64 x 500.
  CHECK(steps * 512 * 10 <= 64 * 500 * 7);
}

TEST_CASE("a step with its chunk takes no longer than the target, and a larger chunk would") {
  const latency_model latency(a800_llama3_70b());
  const auto step = [&](decode_shape decodes, std::uint32_t context, std::uint32_t tokens) {
    return latency.decode_seconds(decodes) + 1.096e-4 * tokens + 7.42e-10 * tokens * (2.0 * context + tokens);
  };
  for (const double target : {0.1, 0.2, 0.3})
    for (const std::uint32_t sequences : {1u, 32u, 128u})
      for (const std::uint32_t context : {0u, 8000u, 100'000u}) {
        CAPTURE(target);
        CAPTURE(sequences);
        CAPTURE(context);
        const decode_shape decodes{sequences, sequences * std::uint64_t{4000}};
        const auto budget = chunk_budget({.tbt_seconds = target}, decodes, context, latency);
        CHECK(budget % 64 == 0);
        if (budget > 64) CHECK(step(decodes, context, budget) <= target + 1e-9);
        if (budget < 8192) CHECK(step(decodes, context, budget + 64) > target);
      }
  // However late the decodes are, a prompt gets on; and a step without decodes takes what it can.
  CHECK(chunk_budget({.tbt_seconds = 1e-6}, {500, 1'000'000}, 0, latency) == 64);
  CHECK(chunk_budget({.tbt_seconds = 1e6}, {}, 0, latency) == 8192);
}

TEST_CASE("at a target of twice a decode step, mixed steps take at most twice as long as decoding alone") {
  // Sarathi-Serve (OSDI'24): stall-free batching. A prompt of 8,000 tokens beside 32 sequences of 4,000.
  const latency_model latency(a800_llama3_70b());
  const decode_shape decodes{32, 32 * 4000};
  const double alone = latency.decode_seconds(decodes);
  std::uint32_t done = 0;
  std::uint32_t steps = 0;
  double longest = 0.0;
  while (done < 8000) {
    const auto budget = chunk_budget({.tbt_seconds = 2 * alone}, decodes, done, latency);
    const auto tokens = std::min(budget, 8000 - done);
    longest = std::max(longest, alone + latency.prefill_seconds({done + tokens, done}) -
                                    latency.coefficients().prefill.base_seconds -
                                    latency.coefficients().prefill.per_cached_token * done);
    done += tokens;
    ++steps;
  }
  CHECK(longest <= 2 * alone);
  // Unchunked, the decodes would have stood still for the whole prompt.
  CHECK(alone + latency.prefill_seconds({8000, 0}) > 10 * alone);
  CHECK(steps < 40);
}

TEST_CASE("a short rest is computed where it is decoded, a long one is not") {
  const latency_model latency(a800_llama3_70b());
  const step_target target{.tbt_seconds = 0.1};
  const decode_shape decodes{32, 32 * 4000};
  CHECK(prefill_inline(target, decodes, {8000, 7900}, latency));
  CHECK(prefill_inline(target, decodes, {8000, 8000}, latency));
  CHECK_FALSE(prefill_inline(target, decodes, {8000, 0}, latency));
  CHECK(prefill_inline(target, {}, {200, 0}, latency));
  CHECK_FALSE(prefill_inline({.tbt_seconds = 0.03}, decodes, {8000, 7900}, latency));
}
