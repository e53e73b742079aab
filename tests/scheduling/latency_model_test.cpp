#include "scheduling/latency_model.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/random.hpp"
#include "scheduling/queue_estimate.hpp"

using namespace yolk;
using namespace yolk::scheduling;

namespace {

/// A single server that takes every prompt for a constant time, with Poisson arrivals: mean time from
/// arrival to end.
double mean_ttft(double service_seconds, double rate, std::uint64_t seed) {
  core::random_source random(seed);
  double now = 0.0;
  double free_at = 0.0;
  double sum = 0.0;
  constexpr int requests = 400'000;
  queue_estimate queue;
  std::vector<std::pair<std::uint64_t, double>> ends;
  std::size_t ended = 0;
  for (int i = 0; i < requests; ++i) {
    now += -std::log(random.open_unit()) / rate;
    for (; ended < ends.size() && ends[ended].second <= now; ++ended)
      queue.left(ends[ended].first, ends[ended].second);
    // What the estimate says is what happens.
    REQUIRE(queue.seconds(now) == doctest::Approx(std::max(0.0, free_at - now)).epsilon(1e-6));
    queue.placed(static_cast<std::uint64_t>(i), service_seconds, now);
    free_at = std::max(free_at, now) + service_seconds;
    ends.emplace_back(static_cast<std::uint64_t>(i), free_at);
    sum += free_at - now;
  }
  return sum / requests;
}

double m_d_1(double d, double r) {
  return d + r * d * d / (2 * (1 - r * d));
}

}  // namespace

TEST_CASE("the preset is within 4 % of the published prefill times") {
  const latency_model model(a800_llama3_70b());
  const double published[][3] = {
      {8192, 0, 1.001},  {16384, 0, 2.053},  {32768, 0, 4.474},  {65536, 0, 10.576}, {131072, 0, 27.487},
      {8192, .95, .135}, {16384, .95, .226}, {32768, .95, .406}, {65536, .95, .880}, {131072, .95, 2.326}};
  for (const auto& [tokens, hit, seconds] : published) {
    CAPTURE(tokens);
    const prefill_shape shape{static_cast<std::uint32_t>(tokens), static_cast<std::uint32_t>(tokens * hit)};
    CHECK(model.prefill_seconds(shape) == doctest::Approx(seconds).epsilon(0.04));
  }
  // 128k tokens between two nodes; 40 GB at 87 GB/s.
  CHECK(model.transfer_seconds(model.kv_bytes(131072), link_path::network) ==
        doctest::Approx(.494).epsilon(0.01));
  CHECK(model.decode_seconds({.sequences = 1, .context_tokens = 0}) == doctest::Approx(0.0262));
}

TEST_CASE("a queue of constant service waits as M/D/1 says") {
  // DistServe (OSDI'24): TTFT = D + R D^2 / (2 (1 - R D)).
  const std::uint64_t seed = 5;
  MESSAGE("seed ", seed);
  CHECK(m_d_1(0.1, 5) == doctest::Approx(0.150));
  CHECK(m_d_1(0.1, 8) == doctest::Approx(0.300));
  CHECK(m_d_1(0.1, 9) == doctest::Approx(0.550));
  for (const double rate : {5.0, 8.0, 9.0}) {
    CAPTURE(rate);
    CHECK(mean_ttft(0.1, rate, seed) == doctest::Approx(m_d_1(0.1, rate)).epsilon(0.02));
  }
}

TEST_CASE("a cached prefix never costs more than computing it, and an empty batch costs nothing") {
  const latency_model model(a800_llama3_70b());
  for (std::uint32_t tokens = 1; tokens < 200'000; tokens = tokens * 2 + 1) {
    double before = std::numeric_limits<double>::infinity();
    for (std::uint32_t cached = 0; cached <= tokens; cached += tokens / 8 + 1) {
      const double seconds = model.prefill_seconds({tokens, cached});
      CHECK(seconds < before);
      before = seconds;
    }
    CHECK(model.prefill_seconds({tokens, tokens}) == model.prefill_seconds({tokens, 2 * tokens}));
  }
  CHECK(model.decode_seconds({}) == 0.0);
  CHECK(model.transfer_seconds(0, link_path::network, 7) == 0.0);
}

TEST_CASE("transfers that share a link each get their part of it") {
  latency_coefficients coefficients;
  coefficients.links[1] = {.setup_seconds = 0.5, .bytes_per_second = 100.0};
  const latency_model model(coefficients);
  CHECK(model.transfer_seconds(200, link_path::network) == doctest::Approx(2.5));
  CHECK(model.transfer_seconds(200, link_path::network, 3) == doctest::Approx(8.5));
}

TEST_CASE("a fit finds the coefficients that made the samples") {
  const latency_model truth(a800_llama3_70b());
  std::vector<prefill_sample> prefill;
  for (const std::uint32_t n : {500u, 1000u, 2000u, 8000u, 32'000u, 128'000u})
    for (const double hit : {0.0, 0.5, 0.9}) {
      const prefill_shape shape{n, static_cast<std::uint32_t>(n * hit)};
      prefill.push_back({shape, truth.prefill_seconds(shape)});
    }
  const auto found = fit_prefill(prefill);
  REQUIRE(found);
  const auto& expected = truth.coefficients().prefill;
  CHECK(found->coefficients.base_seconds == doctest::Approx(expected.base_seconds).epsilon(1e-4));
  CHECK(found->coefficients.per_token == doctest::Approx(expected.per_token).epsilon(1e-4));
  CHECK(found->coefficients.per_token_squared == doctest::Approx(expected.per_token_squared).epsilon(1e-4));
  CHECK(found->coefficients.per_cached_token == doctest::Approx(expected.per_cached_token).epsilon(1e-3));
  CHECK(found->error.largest < 1e-6);

  std::vector<decode_sample> decode;
  for (const std::uint32_t sequences : {1u, 8u, 64u})
    for (const std::uint64_t context : {100u, 5000u, 400'000u}) {
      const decode_shape shape{sequences, context};
      decode.push_back({shape, truth.decode_seconds(shape)});
    }
  const auto steps = fit_decode(decode);
  REQUIRE(steps);
  CHECK(steps->coefficients.base_seconds == doctest::Approx(0.0262).epsilon(1e-4));
  CHECK(steps->coefficients.per_context_token == doctest::Approx(34.6e-9).epsilon(1e-4));
}

TEST_CASE("noise of 5 % in the samples leaves the fit within 5 %, with no negative coefficient") {
  const std::uint64_t seed = 11;
  MESSAGE("seed ", seed);
  core::random_source random(seed);
  const latency_model truth(a800_llama3_70b());
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    std::vector<prefill_sample> samples;
    for (int i = 0; i < 60; ++i) {
      const auto n = static_cast<std::uint32_t>(100 + random.below(60'000));
      const prefill_shape shape{n, static_cast<std::uint32_t>(random.below(n))};
      samples.push_back({shape, truth.prefill_seconds(shape) * (0.95 + 0.1 * random.open_unit())});
    }
    const auto found = fit_prefill(samples);
    REQUIRE(found);
    CHECK(found->coefficients.base_seconds >= 0.0);
    CHECK(found->coefficients.per_token >= 0.0);
    CHECK(found->coefficients.per_token_squared >= 0.0);
    CHECK(found->coefficients.per_cached_token >= 0.0);
    CHECK(found->error.mean < 0.05);
    latency_coefficients coefficients;
    coefficients.prefill = found->coefficients;
    const latency_model model(coefficients);
    for (const std::uint32_t n : {1000u, 10'000u, 50'000u})
      CHECK(model.prefill_seconds({n, 0}) == doctest::Approx(truth.prefill_seconds({n, 0})).epsilon(0.05));
  }
}

TEST_CASE("a fit of what does not vary stays finite, and bad samples are told") {
  const std::vector<prefill_sample> same(10, {{1000, 0}, 0.5});
  const auto found = fit_prefill(same);
  REQUIRE(found);
  CHECK(found->error.largest < 1e-9);
  REQUIRE_FALSE(fit_prefill(std::span(same).first(3)));
  CHECK(fit_prefill(std::span(same).first(3)).error().code == errc::too_few_samples);
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    auto samples = same;
    samples[4].seconds = bad;
    const auto refused = fit_prefill(samples);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::bad_sample);
  }
}

TEST_CASE("the correction follows a machine that is slower than profiled") {
  online_correction correction({.weight = 0.2, .largest = 4.0});
  CHECK(correction.factor() == 1.0);
  for (int i = 0; i < 50; ++i) correction.observe(1.0, 2.0);
  CHECK(correction.factor() == doctest::Approx(2.0).epsilon(1e-3));
  CHECK(correction.relative_error() < 0.01);
  for (int i = 0; i < 50; ++i) correction.observe(1.0, 0.5);
  CHECK(correction.factor() == doctest::Approx(0.5).epsilon(1e-3));
}

TEST_CASE("the correction is bounded, and nonsense does not move it") {
  online_correction correction({.weight = 0.5, .largest = 4.0});
  for (int i = 0; i < 100; ++i) correction.observe(1.0, 1e9);
  CHECK(correction.factor() == doctest::Approx(4.0));
  for (int i = 0; i < 100; ++i) correction.observe(1.0, 1e-9);
  CHECK(correction.factor() == doctest::Approx(0.25));
  const double before = correction.factor();
  const auto count = correction.observations();
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    correction.observe(bad, 1.0);
    correction.observe(1.0, bad);
  }
  CHECK(correction.factor() == before);
  CHECK(correction.observations() == count);
}

TEST_CASE("one outlier among many observations moves the prediction by less than half") {
  online_correction correction({.weight = 0.1, .largest = 1000.0, .outlier = 32.0});
  for (int i = 0; i < 100; ++i) correction.observe(1.0, 1.0);
  correction.observe(1.0, 1e6);
  CHECK(correction.factor() < 1.5);
}

TEST_CASE("a queue's estimate counts down with its first request and forgets who left") {
  queue_estimate queue;
  CHECK(queue.seconds(3.0) == 0.0);
  queue.placed(1, 2.0, 10.0);
  queue.placed(2, 3.0, 11.0);
  CHECK(queue.seconds(11.0) == doctest::Approx(4.0));
  CHECK(queue.seconds(20.0) == doctest::Approx(3.0));  // the first is late: about to end
  queue.left(1, 20.0);
  CHECK(queue.seconds(21.0) == doctest::Approx(2.0));
  queue.placed(3, 5.0, 21.0);
  queue.left(3, 21.0);  // cancelled behind the one that runs
  queue.left(99, 21.0);
  CHECK(queue.seconds(21.0) == doctest::Approx(2.0));
  queue.left(2, 22.0);
  CHECK(queue.size() == 0);
  CHECK(queue.seconds(23.0) == 0.0);
}
