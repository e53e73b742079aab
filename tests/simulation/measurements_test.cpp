#include "simulation/measurements.hpp"

#include <doctest/doctest.h>

#include <numeric>

using namespace yolk;
using namespace yolk::simulation;
using namespace std::chrono_literals;

TEST_CASE("a quantile is a value of the distribution, to two per cent") {
  histogram values;
  CHECK(values.quantile(0.5) == 0.0);
  for (int i = 1; i <= 1000; ++i) values.add(i * 0.001);
  CHECK(values.quantile(0.5) == doctest::Approx(0.5).epsilon(0.021));
  CHECK(values.quantile(0.99) == doctest::Approx(0.99).epsilon(0.021));
  CHECK(values.quantile(1.0) == 1.0);
  CHECK(values.mean() == doctest::Approx(0.5005));
  CHECK(values.cumulative().back().share == 1.0);
}

TEST_CASE("a request's TBT is the mean of its slowest tenth of gaps, of one gap at least") {
  std::vector<float> gaps(20, 1.0f);
  gaps[3] = 5.0f;
  gaps[11] = 3.0f;
  CHECK(mean_of_largest_tenth(gaps) == 4.0);
  std::vector<float> few = {1.0f, 2.0f};
  CHECK(mean_of_largest_tenth(few) == 2.0);
  std::vector<float> none;
  CHECK(mean_of_largest_tenth(none) == 0.0);
}

TEST_CASE("a series keeps its sum however long the time, in bounded memory") {
  time_series series;
  series.add_span(0.0, 10.0, 2.0);
  for (int i = 0; i < 100; ++i) series.add(i * 1000.0, 1.0);
  const auto parts = series.parts(100'000.0, 10);
  CHECK(std::accumulate(parts.begin(), parts.end(), 0.0) == doctest::Approx(120.0));
  CHECK(parts[5] == doctest::Approx(10.0).epsilon(0.1));  // a bin may lie across a border
  CHECK(series.bin_seconds() * time_series::max_bins >= 99'000.0);
}

TEST_CASE("a level is integrated over time") {
  level_series level;
  level.change(1.0, 2);
  level.change(3.0, -1);
  level.change(5.0, -1);
  const auto parts = level.series().parts(5.0, 5);
  CHECK(parts == std::vector<double>{0, 2, 2, 1, 1});
}

TEST_CASE("what swings in anti-phase correlates negatively") {
  CHECK(correlation({1, 2, 3, 4}, {2, 4, 6, 8}) == doctest::Approx(1.0));
  CHECK(correlation({1, 2, 1, 2}, {2, 1, 2, 1}) == doctest::Approx(-1.0));
  CHECK(correlation({1, 1, 1}, {1, 2, 3}) == 0.0);
}

TEST_CASE("only a request that finished within both targets is goodput") {
  const core::time_point start{};
  measurements results(start, {.ttft_seconds = 1.0, .tbt_seconds = 0.1});
  const auto one = [&](core::duration ttft, float gap, request_end how) {
    request_outcome outcome{.arrival = start, .how = how};
    results.arrived(start);
    outcome.first_token = start + ttft;
    results.first_token(outcome.first_token);
    outcome.end = start + 10s;
    outcome.gap_seconds = {gap};
    results.ended(outcome);
  };
  one(500ms, 0.05f, request_end::finished);
  one(1500ms, 0.05f, request_end::finished);
  one(500ms, 0.15f, request_end::finished);
  one(500ms, 0.05f, request_end::failed);
  CHECK(results.count().both_met == 1);
  CHECK(results.count().ttft_met == 2);
  CHECK(results.count().tbt_met == 2);
  CHECK(results.count().failed == 1);
  CHECK(results.waiting.level() == 0);
  CHECK(results.decoding.level() == 0);
}
