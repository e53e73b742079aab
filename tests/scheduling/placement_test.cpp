#include "scheduling/placement.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "core/random.hpp"

using namespace yolk;
using namespace yolk::scheduling;

namespace {

constexpr core::worker_id a{1};
constexpr core::worker_id b{2};
constexpr core::worker_id c{3};
constexpr placement_costs costs{.prefill_seconds_per_token = 1e-3, .pull_seconds_per_token = 1e-5};
const std::vector<decode_candidate> one_decode{{.worker = c, .free_tokens = 1'000'000}};

core::worker_id prefill_of(std::uint32_t prompt_tokens, const std::vector<prefill_candidate>& candidates) {
  const auto placed = place(prompt_tokens, candidates, one_decode, costs);
  REQUIRE(placed);
  return placed->prefill;
}

core::worker_id decode_of(std::uint32_t prompt_tokens, const std::vector<decode_candidate>& candidates) {
  const std::vector<prefill_candidate> prefill{{.worker = a}};
  const auto placed = place(prompt_tokens, prefill, candidates, costs);
  REQUIRE(placed);
  return placed->decode;
}

}  // namespace

TEST_CASE("without candidates there is no placement") {
  const std::vector<prefill_candidate> prefill{{.worker = a}};
  CHECK_FALSE(place(100, {}, one_decode, costs).has_value());
  CHECK_FALSE(place(100, prefill, {}, costs).has_value());
  CHECK_FALSE(place(100, {}, {}, costs).has_value());
}

TEST_CASE("the longest prefix wins while its queue is short, and loses when computing anew is sooner") {
  CHECK(prefill_of(1000, {{.worker = a}, {.worker = b, .device_cached_tokens = 900}}) == b);
  CHECK(prefill_of(1000, {{.worker = a}, {.worker = b, .queued_tokens = 899, .device_cached_tokens = 900}}) ==
        b);
  CHECK(prefill_of(1000, {{.worker = a}, {.worker = b, .queued_tokens = 901, .device_cached_tokens = 900}}) ==
        a);
}

TEST_CASE("a prefix that every prompt shares does not send every request to one worker") {
  // All hold the shared first block; one of them a bit more, and a queue.
  CHECK(prefill_of(4096, {{.worker = a, .queued_tokens = 8192, .device_cached_tokens = 528},
                          {.worker = b, .queued_tokens = 0, .device_cached_tokens = 512}}) == b);
}

TEST_CASE("a prefix in a shard counts with the cost of pulling it") {
  const std::vector<prefill_candidate> candidates{{.worker = a, .pool_cached_tokens = 900},
                                                  {.worker = b, .device_cached_tokens = 895}};
  // a: 900 pulled at 1e-5, 100 computed = 109 ms; b: 105 computed = 105 ms.
  CHECK(prefill_of(1000, candidates) == b);
  const auto placed = place(1000, std::span(candidates).first(1), one_decode, costs);
  CHECK(placed->predicted_ttft_seconds == doctest::Approx(0.109));
}

TEST_CASE("a pull that costs more than computing is not counted as a gain") {
  const placement_costs slow_link{.prefill_seconds_per_token = 1e-3, .pull_seconds_per_token = 5e-3};
  const prefill_candidate candidate{.worker = a, .device_cached_tokens = 100, .pool_cached_tokens = 900};
  CHECK(predict_ttft_seconds(1000, candidate, slow_link) == doctest::Approx(0.9));
  CHECK(predict_ttft_seconds(1000, candidate, costs) == doctest::Approx(0.108));
}

TEST_CASE("a cached prompt still computes its last token") {
  const prefill_candidate whole{.worker = a, .device_cached_tokens = 1000};
  CHECK(predict_ttft_seconds(1000, whole, costs) == doctest::Approx(0.001));
  const prefill_candidate more{.worker = a, .device_cached_tokens = 5000, .pool_cached_tokens = 9000};
  CHECK(predict_ttft_seconds(1000, more, costs) == doctest::Approx(0.001));
  CHECK(predict_ttft_seconds(1, more, costs) == doctest::Approx(0.001));
  CHECK(predict_ttft_seconds(0, more, costs) == 0.0);
}

TEST_CASE("ties go to the lowest id, wherever it stands in the list") {
  CHECK(prefill_of(100, {{.worker = c}, {.worker = a}, {.worker = b}}) == a);
  CHECK(decode_of(100, {{.worker = c, .free_tokens = 999},
                        {.worker = a, .free_tokens = 500},
                        {.worker = b, .free_tokens = 999}}) == a);
}

TEST_CASE("decode goes to the least context among those with room") {
  CHECK(decode_of(100, {{.worker = a, .context_tokens = 500, .free_tokens = 1000},
                        {.worker = b, .context_tokens = 400, .free_tokens = 1000},
                        {.worker = c, .context_tokens = 10, .free_tokens = 100}}) == b);
  // Exactly the prompt and one token: enough.
  CHECK(decode_of(100, {{.worker = a, .context_tokens = 500, .free_tokens = 1000},
                        {.worker = c, .context_tokens = 10, .free_tokens = 101}}) == c);
}

TEST_CASE("when no decode worker has room the least loaded gets the request all the same") {
  CHECK(decode_of(100, {{.worker = a, .context_tokens = 500, .free_tokens = 50},
                        {.worker = b, .context_tokens = 400, .free_tokens = 0}}) == b);
}

TEST_CASE("huge queues and prompts neither overflow nor wrap to the front") {
  constexpr auto huge = std::numeric_limits<std::uint64_t>::max();
  constexpr auto longest = std::numeric_limits<std::uint32_t>::max();
  CHECK(prefill_of(longest, {{.worker = a, .queued_tokens = huge}, {.worker = b, .queued_tokens = 1}}) == b);
  CHECK(decode_of(longest, {{.worker = a, .context_tokens = huge, .free_tokens = huge},
                            {.worker = b, .context_tokens = huge - 1, .free_tokens = huge}}) == b);
  // 2^32 - 1 prompt tokens and one more do not wrap to "0 tokens fit anywhere".
  CHECK(decode_of(longest, {{.worker = a, .context_tokens = 1, .free_tokens = 5},
                            {.worker = b, .context_tokens = 9, .free_tokens = huge}}) == b);
}

TEST_CASE("no other worker would have been predicted faster, and the order of the list does not matter") {
  const std::uint64_t seed = 99;
  MESSAGE("seed ", seed);
  core::random_source random(seed);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    std::vector<prefill_candidate> candidates;
    for (std::uint32_t id = 0; id <= random.below(6); ++id)
      candidates.push_back({.worker = {id},
                            .queued_tokens = random.below(3) * 500,
                            .device_cached_tokens = static_cast<std::uint32_t>(random.below(3) * 512),
                            .pool_cached_tokens = static_cast<std::uint32_t>(random.below(3) * 512)});
    const auto placed = place(1000, candidates, one_decode, costs);
    REQUIRE(placed);
    for (const auto& candidate : candidates) {
      const double seconds = predict_ttft_seconds(1000, candidate, costs);
      REQUIRE(seconds >= placed->predicted_ttft_seconds);
      if (seconds == placed->predicted_ttft_seconds) REQUIRE(candidate.worker >= placed->prefill);
    }
    std::vector<prefill_candidate> reversed(candidates.rbegin(), candidates.rend());
    CHECK(place(1000, reversed, one_decode, costs)->prefill == placed->prefill);
  }
}
