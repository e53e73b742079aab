#include "scheduling/batching.hpp"

#include <doctest/doctest.h>

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
