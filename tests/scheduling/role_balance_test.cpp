#include "scheduling/role_balance.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "core/random.hpp"

using namespace yolk;
using namespace yolk::scheduling;

namespace {

/// The demand of ten seconds of Poisson arrivals, each of `prefill` and `decode` worker-seconds on average.
role_demand ten_seconds(core::random_source& random, double rate, const role_demand& mean) {
  role_demand sum;
  for (double at = -std::log(random.open_unit()) / rate; at < 10.0;
       at -= std::log(random.open_unit()) / rate) {
    sum.prefill -= std::log(random.open_unit()) * mean.prefill / 10.0;
    sum.decode -= std::log(random.open_unit()) * mean.decode / 10.0;
  }
  return sum;
}

struct outcome {
  role_counts counts;
  int changes_in_last_hour = 0;
};

/// Two hours of steady load.
outcome run(role_counts counts, double rate, const role_demand& mean, std::uint64_t seed) {
  core::random_source random(seed);
  role_balancer balancer({});
  outcome result;
  for (double now = 0.0; now < 7200.0; now += 10.0) {
    const auto change = balancer.decide(now, counts, ten_seconds(random, rate, mean));
    if (change == role_change::none) continue;
    counts.prefill += change == role_change::to_prefill ? 1 : -1;
    counts.decode -= change == role_change::to_prefill ? 1 : -1;
    result.changes_in_last_hour += now >= 3600.0 ? 1 : 0;
  }
  result.counts = counts;
  return result;
}

}  // namespace

TEST_CASE("the balance is where both roles are equally busy") {
  CHECK(balanced_prefill_count(16, {.prefill = 4.0, .decode = 4.0}) == 8);
  CHECK(balanced_prefill_count(16, {.prefill = 6.0, .decode = 2.0}) == 12);
  CHECK(balanced_prefill_count(16, {.prefill = 0.0, .decode = 2.0}) == 1);
  CHECK(balanced_prefill_count(16, {.prefill = 2.0, .decode = 0.0}) == 15);
  CHECK(balanced_prefill_count(2, {.prefill = 9.0, .decode = 0.1}) == 1);
}

TEST_CASE("from any start an hour of steady load ends within one worker of the balance, and then rests") {
  const std::uint64_t seed = 81;
  MESSAGE("seed ", seed);
  // 5 arrivals a second: 5.5 and 2.5 workers busy. The balance of 16 is 11.
  const role_demand mean{.prefill = 1.1, .decode = 0.5};
  const auto best = balanced_prefill_count(16, {.prefill = 5.5, .decode = 2.5});
  for (std::uint32_t start = 1; start < 16; ++start) {
    CAPTURE(start);
    const auto ended = run({.prefill = start, .decode = 16 - start}, 5.0, mean, seed + start);
    CHECK(ended.counts.prefill + 1 >= best);
    CHECK(ended.counts.prefill <= best + 1);
    CHECK(ended.changes_in_last_hour == 0);
  }
}

TEST_CASE("a load that changes its kind moves the workers after it, one at a time") {
  role_balancer balancer({});
  role_counts counts{.prefill = 8, .decode = 8};
  const auto step = [&](double now, const role_demand& demand) {
    const auto change = balancer.decide(now, counts, demand);
    if (change == role_change::none) return;
    counts.prefill += change == role_change::to_prefill ? 1 : -1;
    counts.decode -= change == role_change::to_prefill ? 1 : -1;
  };
  for (double now = 0; now < 600; now += 10) step(now, {.prefill = 4, .decode = 4});
  CHECK(counts.prefill == 8);
  for (double now = 600; now < 3600; now += 10) step(now, {.prefill = 6, .decode = 2});
  CHECK(counts.prefill >= 11);
  for (double now = 3600; now < 8000; now += 10) step(now, {.prefill = 2, .decode = 6});
  CHECK(counts.prefill <= 5);
}

TEST_CASE("a burst shorter than the patience moves nobody, and the last worker of a role stays") {
  role_balancer balancer({.smoothing_seconds = 1.0});
  for (double now = 0; now < 100; now += 10)
    CHECK(balancer.decide(now, {8, 8}, {.prefill = 4, .decode = 4}) == role_change::none);
  for (double now = 100; now < 130; now += 10)
    CHECK(balancer.decide(now, {8, 8}, {.prefill = 8, .decode = 1}) == role_change::none);
  CHECK(balancer.decide(130, {8, 8}, {.prefill = 4, .decode = 4}) == role_change::none);
  for (double now = 140; now < 1000; now += 10)
    CHECK(balancer.decide(now, {15, 1}, {.prefill = 8, .decode = 0}) == role_change::none);
}
