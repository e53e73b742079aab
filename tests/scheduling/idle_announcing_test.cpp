// How prompts find a free prefill worker (P/D-Serve, arXiv 2408.08147): by queues that are reported late, by
// asking around, or by workers that announce themselves, which is what Yolk's placement does.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numbers>
#include <queue>
#include <vector>

#include "core/random.hpp"
#include "scheduling/placement.hpp"
#include "scheduling/queue_estimate.hpp"

using namespace yolk;
using namespace yolk::scheduling;

namespace {

constexpr std::uint32_t workers = 16;
constexpr int requests = 300'000;

/// Lognormal with mean 0.2 s and coefficient of variation 2.
double service(core::random_source& random) {
  const double variance = std::log(1.0 + 2.0 * 2.0);
  const double normal =
      std::sqrt(-2.0 * std::log(random.open_unit())) * std::cos(2.0 * std::numbers::pi * random.open_unit());
  return 0.2 * std::exp(std::sqrt(variance) * normal - variance / 2);
}

double p99(std::vector<double>& waits) {
  const auto at = waits.begin() + static_cast<std::ptrdiff_t>(waits.size() * 99 / 100);
  std::nth_element(waits.begin(), at, waits.end());
  return *at;
}

/// The wait when a prompt goes to the worker whose queue was the shortest at the last report.
double p99_of_stale_reports(double load, std::uint64_t seed) {
  core::random_source random(seed);
  std::vector<std::priority_queue<double, std::vector<double>, std::greater<>>> ends(workers);
  std::vector<double> free_at(workers, 0.0);
  std::vector<std::size_t> reported(workers, 0);
  std::vector<double> waits;
  double now = 0.0;
  double next_report = 0.0;
  for (int i = 0; i < requests; ++i) {
    now -= std::log(random.open_unit()) * 0.2 / (load * workers);
    for (; next_report <= now; next_report += 0.2)
      for (std::uint32_t w = 0; w < workers; ++w) {
        while (!ends[w].empty() && ends[w].top() <= next_report) ends[w].pop();
        reported[w] = ends[w].size();
      }
    const auto least = *std::ranges::min_element(reported);
    std::vector<std::uint32_t> shortest;
    for (std::uint32_t w = 0; w < workers; ++w)
      if (reported[w] == least) shortest.push_back(w);
    const std::uint32_t to = shortest[random.below(shortest.size())];
    const double start = std::max(now, free_at[to]);
    waits.push_back(start - now);
    free_at[to] = start + service(random);
    ends[to].push(free_at[to]);
  }
  return p99(waits);
}

/// The wait in one queue that all workers serve: as short as it can be without knowing the services.
double p99_of_one_queue(double load, std::uint64_t seed) {
  core::random_source random(seed);
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
  for (std::uint32_t w = 0; w < workers; ++w) free_at.push(0.0);
  std::vector<double> waits;
  double now = 0.0;
  for (int i = 0; i < requests; ++i) {
    now -= std::log(random.open_unit()) * 0.2 / (load * workers);
    const double start = std::max(now, free_at.top());
    free_at.pop();
    waits.push_back(start - now);
    free_at.push(start + service(random));
  }
  return p99(waits);
}

/// The wait under Yolk's placement, prompts being held until a worker announces its end.
double p99_of_announcing(double load, std::uint64_t seed) {
  core::random_source random(seed);
  latency_coefficients coefficients;
  coefficients.prefill.per_token = 1e-6;
  const corrected_model latency(coefficients, {});
  const auto policy = std::move(make_placement_policy("yolk", {.hold_seconds = 0.0})).value();
  std::vector<prefill_candidate> candidates;
  for (std::uint32_t w = 0; w < workers; ++w) candidates.push_back({.worker = {w}});
  const decode_candidate decode{.worker = {100}, .free_tokens = 1'000'000'000};
  struct prompt {
    double arrival = 0.0;
    double service = 0.0;
  };
  std::deque<prompt> held;
  using ending = std::pair<double, std::uint32_t>;
  std::priority_queue<ending, std::vector<ending>, std::greater<>> endings;
  std::vector<double> waits;
  const auto place = [&](const prompt& next, double now) {
    const auto where = policy->place(
        {.prompt_tokens = static_cast<std::uint32_t>(next.service * 1e6) + 1, .now_seconds = now},
        {.prefill = candidates, .holders = {}, .decode = {&decode, 1}, .latency = &latency});
    if (!where) return false;
    waits.push_back(now - next.arrival);
    candidates[where->prefill.value].queue_seconds = next.service;  // more than 0 until it ends
    endings.emplace(now + next.service, where->prefill.value);
    return true;
  };
  const auto end_until = [&](double now) {
    for (; !endings.empty() && endings.top().first <= now;) {
      const auto [at, worker] = endings.top();
      endings.pop();
      candidates[worker].queue_seconds = 0.0;
      if (!held.empty() && place(held.front(), at)) held.pop_front();
    }
  };
  double now = 0.0;
  for (int i = 0; i < requests; ++i) {
    now -= std::log(random.open_unit()) * 0.2 / (load * workers);
    end_until(now);
    const prompt next{now, service(random)};
    if (!held.empty() || !place(next, now)) held.push_back(next);
  }
  end_until(1e300);
  REQUIRE(waits.size() == requests);
  return p99(waits);
}

}  // namespace

TEST_CASE("workers that announce themselves keep the wait at a fraction of what late reports give") {
  const std::uint64_t seed = 91;
  MESSAGE("seed ", seed);
  for (const double load : {0.7, 0.8, 0.9}) {
    const double stale = p99_of_stale_reports(load, seed);
    const double announced = p99_of_announcing(load, seed);
    MESSAGE("load ", load, ": P99 of the wait with late reports ", stale, " s, announced ", announced, " s");
    CHECK(announced == doctest::Approx(p99_of_one_queue(load, seed)).epsilon(1e-6));
    CHECK(announced < stale / 4);
  }
}
