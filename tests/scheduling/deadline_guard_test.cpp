#include "scheduling/deadline_guard.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <deque>
#include <set>

#include "core/random.hpp"

using namespace yolk;
using namespace yolk::scheduling;

namespace {

using indices = std::vector<std::uint32_t>;

/// A prefill worker at `load` times its capacity, prompts of 0.2 s on average, with targets of 0.5 to 7.5 s:
/// the share of requests whose TTFT is met.
double share_met(double load, bool guarded, std::uint64_t seed) {
  core::random_source random(seed);
  constexpr int requests = 20'000;
  constexpr double mean_service = 0.2;
  std::vector<double> arrivals;
  std::vector<waiting_prefill> all;
  double now = 0.0;
  for (int i = 0; i < requests; ++i) {
    now += -std::log(random.open_unit()) * mean_service / load;
    arrivals.push_back(now);
    all.push_back({.deadline_seconds = now + 0.5 + 7.0 * random.open_unit(),
                   .service_seconds = mean_service * (0.1 + 1.8 * random.open_unit())});
  }
  std::deque<std::uint32_t> waiting;
  std::size_t next = 0;
  double free_at = 0.0;
  int met = 0;
  while (next < arrivals.size() || !waiting.empty()) {
    if (waiting.empty()) free_at = std::max(free_at, arrivals[next]);
    while (next < arrivals.size() && arrivals[next] <= free_at)
      waiting.push_back(static_cast<std::uint32_t>(next++));
    std::uint32_t chosen = 0;
    if (guarded) {
      std::vector<waiting_prefill> list;
      for (const auto index : waiting) list.push_back(all[index]);
      const auto order = guard_deadlines(list, free_at);
      std::set<std::uint32_t> gone(order.rejected.begin(), order.rejected.end());
      if (!order.run.empty()) gone.insert(order.run.front());
      if (order.run.empty()) {
        waiting.clear();
        continue;
      }
      chosen = waiting[order.run.front()];
      std::deque<std::uint32_t> still;
      for (std::uint32_t i = 0; i < waiting.size(); ++i)
        if (!gone.contains(i)) still.push_back(waiting[i]);
      waiting = std::move(still);
    } else {
      chosen = waiting.front();
      waiting.pop_front();
    }
    free_at += all[chosen].service_seconds;
    met += free_at <= all[chosen].deadline_seconds ? 1 : 0;
  }
  return static_cast<double>(met) / requests;
}

}  // namespace

TEST_CASE("the least deadline runs first, and who cannot meet his does not delay the others") {
  const std::vector<waiting_prefill> waiting{{.deadline_seconds = 13.0, .service_seconds = 1.0},
                                             {.deadline_seconds = 11.0, .service_seconds = 0.8},
                                             {.deadline_seconds = 11.5, .service_seconds = 5.0},
                                             {.deadline_seconds = 12.0, .service_seconds = 1.0}};
  const auto order = guard_deadlines(waiting, 10.0);
  CHECK(order.run == indices{1, 3, 0});
  CHECK(order.rejected == indices{2});
}

TEST_CASE("a deadline may be missed by the slack, and no more") {
  CHECK(guard_deadlines(std::vector<waiting_prefill>{{1.0, 1.049}}, 0.0).run.size() == 1);
  CHECK(guard_deadlines(std::vector<waiting_prefill>{{1.0, 1.051}}, 0.0).rejected.size() == 1);
  CHECK(guard_deadlines({}, 0.0).run.empty());
}

TEST_CASE("the guard meets at least twice as many targets as FCFS in overload, and no fewer without") {
  // SCORPIO (arXiv 2505.23022).
  const std::uint64_t seed = 31;
  MESSAGE("seed ", seed);
  const double fcfs = share_met(1.5, false, seed);
  const double guarded = share_met(1.5, true, seed);
  MESSAGE("1.5 x: FCFS ", fcfs, ", guarded ", guarded);
  CHECK(guarded >= 2.0 * fcfs);
  CHECK(guarded >= 0.6);  // two thirds are what the capacity allows
  const double calm_fcfs = share_met(0.3, false, seed);
  const double calm_guarded = share_met(0.3, true, seed);
  CHECK(calm_guarded >= 0.98 * calm_fcfs);
}
