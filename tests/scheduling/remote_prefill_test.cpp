#include "scheduling/remote_prefill.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace yolk::scheduling;

namespace {

constexpr double mebibyte = 1048576.0;
constexpr double gigabit = 1e9 / 8;

/// The published case: 32 H200 elsewhere, 64 H20 here, 100 Gb/s between them.
remote_prefill_site published() {
  remote_prefill_site site;
  site.remote_instances = 4;
  site.local_instances = 8;
  site.remote_prefill_seconds = {{1024, 8192, 32768, 131072}, {0.44, 0.72, 1.84, 7.40}};
  site.kv_bytes = {{1024, 8192, 32768, 131072},
                   {190.8 * mebibyte, 308.9 * mebibyte, 701.3 * mebibyte, 2316.3 * mebibyte}};
  // Not published: such that three local instances and five for decode are in balance with the remote site.
  site.local_prefill_seconds = site.remote_prefill_seconds;
  for (double& seconds : site.local_prefill_seconds.values) seconds *= 2.24;
  site.link_bytes_per_second = 100 * gigabit;
  site.decode_requests_per_second = 3.24 / 5;
  return site;
}

const std::vector<double>& lengths() {
  static const auto made = quantiles_of({.mu = 9.90, .sigma = 1.00, .least = 128, .most = 131072}, 20'000);
  return made;
}

}  // namespace

TEST_CASE("at the published threshold the published figures follow") {
  // Prefill-as-a-Service (arXiv 2604.15039): t = 19.4 K, p = 0.496, 3.24 requests/s, 13 Gb/s.
  const auto plan = evaluate_remote_prefill(published(), lengths(), 19'400, 3);
  CHECK(plan.remote_share == doctest::Approx(0.497).epsilon(0.005));
  CHECK(plan.mean_tokens == doctest::Approx(27'500).epsilon(0.01));
  CHECK(plan.mean_remote_tokens == doctest::Approx(45'000).epsilon(0.01));
  CHECK(plan.remote_bound >= 3.12);
  CHECK(plan.remote_bound <= 3.24);
  CHECK(plan.egress_bytes_per_second == doctest::Approx(12.2 * gigabit).epsilon(0.05));
}

TEST_CASE("the planner finds the published threshold and split, where all parts are full at once") {
  const auto plan = plan_remote_prefill(published(), lengths());
  REQUIRE(plan);
  CHECK(plan->prefill_instances == 3);
  CHECK(plan->decode_instances == 5);
  CHECK(plan->threshold_tokens == doctest::Approx(19'400).epsilon(0.05));
  CHECK(plan->throughput == doctest::Approx(3.2).epsilon(0.03));
  CHECK(plan->remote_bound == doctest::Approx(plan->local_bound).epsilon(0.02));
  // More than all prompts here, or all there, would give.
  for (std::uint32_t prefill = 1; prefill < 8; ++prefill) {
    CHECK(plan->throughput > evaluate_remote_prefill(published(), lengths(), 1e9, prefill).throughput);
    CHECK(plan->throughput > evaluate_remote_prefill(published(), lengths(), 0, prefill).throughput);
  }
}

TEST_CASE("a thinner link raises the threshold, and the throughput falls smoothly") {
  double threshold = 0.0;
  double throughput = 1e9;
  for (const double gigabits : {100.0, 12.0, 10.0, 8.0, 6.0, 4.0, 2.0, 1.0, 0.5}) {
    CAPTURE(gigabits);
    auto site = published();
    site.link_bytes_per_second = gigabits * gigabit;
    const auto plan = plan_remote_prefill(site, lengths());
    REQUIRE(plan);
    CHECK(plan->egress_bytes_per_second <= 1.0001 * site.link_bytes_per_second);
    CHECK(plan->throughput <= throughput);
    CHECK(plan->throughput >= 0.8 * std::min(throughput, 3.2));
    if (plan->prefill_instances == 3) {
      CHECK(plan->threshold_tokens >= threshold);
      threshold = plan->threshold_tokens;
    }
    throughput = plan->throughput;
  }
  // Without any link everything is computed here.
  auto apart = published();
  apart.link_bytes_per_second = 0.0;
  const auto plan = plan_remote_prefill(apart, lengths());
  CHECK(plan->remote_share == doctest::Approx(0.0).epsilon(0.001));
}

TEST_CASE("a plan needs lengths and room for both roles") {
  auto site = published();
  CHECK_FALSE(plan_remote_prefill(site, {}));
  site.local_instances = 1;
  REQUIRE_FALSE(plan_remote_prefill(site, lengths()));
  CHECK(plan_remote_prefill(site, lengths()).error().code == errc::infeasible);
}

TEST_CASE("a curve is linear between its points and beyond them") {
  const length_curve curve{{10, 20, 40}, {1, 2, 6}};
  CHECK(curve.at(10) == 1);
  CHECK(curve.at(15) == 1.5);
  CHECK(curve.at(30) == 4);
  CHECK(curve.at(50) == 8);
  CHECK(curve.at(0) == 0);
}
