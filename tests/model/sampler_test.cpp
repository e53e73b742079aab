#include "model/sampler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "core/random.hpp"

namespace {

using yolk::core::sampled_token;
using yolk::core::sampling_params;
using yolk::core::token_id;
using yolk::model::sampler;

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(yolk::core::random_source& random, std::size_t count, float spread) {
  std::vector<float> logits(count);
  for (float& logit : logits)
    logit = (static_cast<float>(random.below(1u << 20)) / float(1u << 20) - 0.5f) * 2 * spread;
  return logits;
}

sampler fresh(const sampling_params& params, std::size_t vocabulary) {
  return sampler(params, std::vector<token_id>{1}, 1, {}, vocabulary);
}

token_id sample_once(const sampling_params& params, std::vector<float> logits) {
  return fresh(params, logits.size()).sample(logits).token;
}

/// What the sampler must draw from, by full sort and plain sums: independent of its partial selection.
std::vector<double> expected_distribution(const std::vector<float>& logits, const sampling_params& params) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights;
  for (const std::size_t token : order)
    weights.push_back(std::exp((double{logits[token]} - logits[order[0]]) / params.temperature));
  std::size_t kept = 0;
  while (kept < order.size() && weights[kept] >= params.min_p) ++kept;
  if (params.top_k > 0) kept = std::min<std::size_t>(kept, params.top_k);
  const double total = std::accumulate(weights.begin(), weights.begin() + std::ptrdiff_t(kept), 0.0);
  double mass = 0;
  std::size_t nucleus = 0;
  while (nucleus < kept && (nucleus == 0 || mass < params.top_p * total)) mass += weights[nucleus++];
  std::vector<double> distribution(logits.size(), 0.0);
  for (std::size_t i = 0; i < nucleus; ++i) distribution[order[i]] = weights[i] / mass;
  return distribution;
}

/// Pearson's statistic over the tokens that are expected at least five times, the rest as one class; compared
/// with the mean plus eight standard deviations of its distribution.
void check_distribution(const std::vector<float>& logits, sampling_params params, std::size_t draws) {
  const std::vector<double> expected = expected_distribution(logits, params);
  std::vector<std::size_t> seen(logits.size());
  sampler one = fresh(params, logits.size());
  for (std::size_t i = 0; i < draws; ++i) {
    std::vector<float> copy = logits;
    ++seen[one.sample(copy).token];
  }
  double statistic = 0;
  double classes = 0;
  double rest_expected = 0;
  double rest_seen = 0;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const double want = expected[token] * double(draws);
    CAPTURE(token);
    if (want == 0) {
      CHECK(seen[token] == 0);
    } else if (want < 5) {
      rest_expected += want;
      rest_seen += double(seen[token]);
    } else {
      statistic += (double(seen[token]) - want) * (double(seen[token]) - want) / want;
      ++classes;
    }
  }
  if (rest_expected > 0) {
    statistic += (rest_seen - rest_expected) * (rest_seen - rest_expected) / std::max(rest_expected, 1.0);
    ++classes;
  }
  CAPTURE(statistic);
  CAPTURE(classes);
  CHECK(statistic <= classes + 8 * std::sqrt(2 * classes));
}

}  // namespace

TEST_CASE("temperature 0 chooses the highest logit, and the lowest id among equals") {
  sampling_params params;
  params.temperature = 0;
  CHECK(sample_once(params, {1, 5, 3, 5, 5}) == 1);
  CHECK(sample_once(params, {0, 0, 0}) == 0);
  params.temperature = 1e-7f;  // would overflow when divided by
  CHECK(sample_once(params, {1, 2, 3}) == 2);
}

TEST_CASE("NaN and infinite logits neither crash nor win unless they should") {
  const float nan = std::nanf("");
  for (const float temperature : {0.0f, 1e-4f, 1.0f, 1e30f}) {
    CAPTURE(temperature);
    sampling_params params;
    params.temperature = temperature;
    params.logprobs = true;
    params.top_logprobs = 3;
    CHECK(sample_once(params, {nan, nan, 7, nan}) == 2);
    CHECK(sample_once(params, {-infinity, 7, -infinity}) == 1);
    CHECK(sample_once(params, {-infinity, -infinity}) == 0);
    CHECK(sample_once(params, {nan, nan}) == 0);
    if (temperature <= 1) CHECK(sample_once(params, {0, infinity, 5}) == 1);
    std::vector<float> logits = {nan, infinity, -infinity, 3};
    const sampled_token token = fresh(params, 4).sample(logits);
    CHECK(std::isfinite(token.logprob));
    for (const auto& each : token.top) CHECK(std::isfinite(each.second));
  }
}

TEST_CASE("draws follow the distribution that temperature, top_k, top_p and min_p leave") {
  const std::uint64_t seed = 20240611;
  MESSAGE("seed ", seed);
  yolk::core::random_source random(seed);
  struct variant {
    float temperature, top_p, min_p;
    std::uint32_t top_k;
  };
  for (const variant& each :
       {variant{1.0f, 1.0f, 0.0f, 0}, variant{0.6f, 1.0f, 0.0f, 0}, variant{1.7f, 0.8f, 0.0f, 0},
        variant{1.0f, 1.0f, 0.2f, 0}, variant{1.0f, 1.0f, 0.0f, 7}, variant{0.9f, 0.5f, 0.0f, 20},
        variant{1.3f, 0.9f, 0.05f, 40}, variant{1.0f, 0.999f, 0.0f, 0}}) {
    for (const std::size_t vocabulary : {3u, 50u, 1000u}) {
      CAPTURE(each.temperature);
      CAPTURE(each.top_p);
      CAPTURE(each.min_p);
      CAPTURE(each.top_k);
      CAPTURE(vocabulary);
      sampling_params params;
      params.temperature = each.temperature;
      params.top_p = each.top_p;
      params.min_p = each.min_p;
      params.top_k = each.top_k;
      params.seed = random();
      check_distribution(random_logits(random, vocabulary, 4), params, vocabulary > 100 ? 4000 : 20000);
    }
  }
}

TEST_CASE("top_k 1, a tiny top_p and min_p 1 leave the best token alone") {
  yolk::core::random_source random(5);
  for (int round = 0; round < 50; ++round) {
    const std::vector<float> logits = random_logits(random, 300, 2);
    sampling_params greedy;
    greedy.temperature = 0;
    const token_id best = sample_once(greedy, logits);
    sampling_params params;
    params.seed = random();
    params.top_k = 1;
    CHECK(sample_once(params, logits) == best);
    params.top_k = 0;
    params.top_p = 1e-6f;
    CHECK(sample_once(params, logits) == best);
    params.top_p = 1;
    params.min_p = 1;
    CHECK(sample_once(params, logits) == best);
  }
}

TEST_CASE("among equal logits top_k keeps the lowest ids") {
  sampling_params params;
  params.top_k = 2;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    params.seed = seed;
    CHECK(sample_once(params, {1, 3, 3, 3, 3}) <= 2);
  }
}

TEST_CASE("logit_bias is added before all else and may forbid or force a token") {
  sampling_params params;
  params.temperature = 0;
  params.logit_bias = {{1, -100.0f}, {3, 2.5f}, {77, 100.0f}};
  CHECK(sample_once(params, {1, 5, 3, 1}) == 3);
}

TEST_CASE("end tokens and stop ids are not chosen before min_tokens") {
  sampling_params params;
  params.temperature = 0;
  params.min_tokens = 3;
  params.stop_token_ids = {2};
  sampler one(params, std::vector<token_id>{0}, 1, std::vector<token_id>{1, 400}, 4);
  std::vector<token_id> chosen;
  for (int i = 0; i < 5; ++i) {
    std::vector<float> logits = {0, 9, 8, 1};
    chosen.push_back(one.sample(logits).token);
  }
  CHECK(chosen == std::vector<token_id>{3, 3, 3, 1, 1});
}

TEST_CASE(
    "repetition penalty divides positive and multiplies negative logits of prompt and generated tokens") {
  sampling_params params;
  params.temperature = 0;
  params.repetition_penalty = 2;
  sampler one(params, std::vector<token_id>{0, 1}, 1, {}, 4);  // token 0 prompted, token 1 generated
  std::vector<float> logits = {4, 3, 1.9f, 2.1f};
  CHECK(one.sample(logits).token == 3);
  logits = {-1, -1.1f, -1.5f, -1.2f};  // 2 alone is unseen: −1.5 against −2, −2.2 and −2.4
  CHECK(one.sample(logits).token == 2);
}

TEST_CASE("presence and frequency penalties count generated tokens only") {
  sampling_params params;
  params.temperature = 0;
  params.presence_penalty = 1;
  sampler present(params, std::vector<token_id>{0, 0, 1, 1}, 2, {}, 3);
  std::vector<float> logits = {3, 3.9f, 2.95f};
  CHECK(present.sample(logits).token == 0);  // prompted, not generated: not penalised
  logits = {3, 3.9f, 2.95f};
  CHECK(present.sample(logits).token == 2);
  params.presence_penalty = 0;
  params.frequency_penalty = 0.5f;
  sampler frequent(params, std::vector<token_id>{0, 0, 1, 1}, 2, {}, 3);
  logits = {3, 3.9f, 1};
  CHECK(frequent.sample(logits).token == 0);
  logits = {2.5f, 3.4f, 2.3f};  // token 0 once, token 1 twice: 2.0, 2.4, 2.3
  CHECK(frequent.sample(logits).token == 1);
}

TEST_CASE("log probabilities are those of the raw logits, before bias, penalties and temperature") {
  sampling_params params;
  params.temperature = 0;
  params.logit_bias = {{2, 50.0f}};
  params.logprobs = true;
  params.top_logprobs = 2;
  std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  const sampled_token token = fresh(params, 4).sample(logits);
  CHECK(token.token == 2);
  CHECK(token.logprob == doctest::Approx(std::log(0.15)).epsilon(1e-5));
  REQUIRE(token.top.size() == 2);
  CHECK(token.top[0].first == 0);
  CHECK(token.top[0].second == doctest::Approx(std::log(0.5)).epsilon(1e-5));
  CHECK(token.top[1].first == 1);
}

TEST_CASE("a log probability of minus infinity is reported as the finite floor") {
  sampling_params params;
  params.temperature = 0;
  params.logit_bias = {{0, -100.0f}, {1, 100.0f}};
  params.logprobs = true;
  params.top_logprobs = 20;
  std::vector<float> logits = {50, -30000, -infinity};
  const sampled_token token = fresh(params, 3).sample(logits);
  REQUIRE(token.top.size() == 3);
  CHECK(token.top[1].second == sampler::lowest_logprob);
  CHECK(token.top[2].second == sampler::lowest_logprob);
}

TEST_CASE("a resumed sampler goes on as the interrupted one would have") {
  const std::uint64_t seed = 77;
  MESSAGE("seed ", seed);
  yolk::core::random_source random(seed);
  sampling_params params;
  params.temperature = 1.2f;
  params.top_p = 0.95f;
  params.repetition_penalty = 1.3f;
  params.presence_penalty = 0.4f;
  params.frequency_penalty = 0.3f;
  params.min_tokens = 20;
  params.seed = 4711;
  const std::vector<token_id> prompt = {5, 6, 7, 8};
  const std::vector<token_id> ends = {3};
  std::vector<std::vector<float>> steps;
  for (int i = 0; i < 60; ++i) steps.push_back(random_logits(random, 40, 3));

  std::vector<token_id> history = prompt;
  sampler whole(params, prompt, prompt.size(), ends, 40);
  for (const auto& step : steps) {
    std::vector<float> logits = step;
    history.push_back(whole.sample(logits).token);
  }
  CHECK(whole.generated_count() == 60);
  for (const std::size_t cut : {1u, 2u, 19u, 20u, 59u}) {
    const std::span<const token_id> known = std::span(history).first(prompt.size() + cut);
    sampler resumed(params, known, prompt.size(), ends, 40);
    CHECK(resumed.generated_count() == cut);
    for (std::size_t i = cut; i < steps.size(); ++i) {
      std::vector<float> logits = steps[i];
      CHECK(resumed.sample(logits).token == history[prompt.size() + i]);
    }
  }
  // A token that came from elsewhere counts as one of its own.
  sampler handed(params, prompt, prompt.size(), ends, 40);
  handed.accept(history[prompt.size()]);
  for (std::size_t i = 1; i < steps.size(); ++i) {
    std::vector<float> logits = steps[i];
    CHECK(handed.sample(logits).token == history[prompt.size() + i]);
  }
}

TEST_CASE("two seeds draw differently, one seed twice the same") {
  yolk::core::random_source random(9);
  const std::vector<float> logits = random_logits(random, 500, 1);
  const auto run = [&](std::uint64_t seed) {
    sampling_params params;
    params.seed = seed;
    sampler one = fresh(params, logits.size());
    std::vector<token_id> tokens;
    for (int i = 0; i < 30; ++i) {
      std::vector<float> copy = logits;
      tokens.push_back(one.sample(copy).token);
    }
    return tokens;
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}
