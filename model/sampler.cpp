#include "model/sampler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/invariant.hpp"
#include "core/random.hpp"

namespace yolk::model {

namespace {

constexpr float impossible = -std::numeric_limits<float>::infinity();

/// Tokens whose weight is below e⁻³² of the best one's are never drawn: together they weigh less than the
/// draw's own resolution (2⁻²⁴) even for a million tokens, and most of a vocabulary is spared its
/// exponential.
constexpr double lightest_exponent = -32.0;

/// How many candidates top_p puts in order at first; doubled while their mass does not suffice.
constexpr std::size_t first_sorted_count = 64;

/// Written without branches: the next step waits for it, so it goes through the vocabulary in vectors.
void make_finite(std::span<float> logits) {
  constexpr float largest = std::numeric_limits<float>::max();
  for (float& logit : logits) {
    const float number = logit == logit ? logit : impossible;
    logit = number > largest ? largest : number;
  }
}

/// Ties go to the lowest id; if nothing is possible, token 0. No logit is NaN. The largest is found in lanes,
/// which the compiler makes vectors of, then its first place.
core::token_id best_token(std::span<const float> logits) {
  constexpr std::size_t lane_count = 16;
  std::array<float, lane_count> lanes;
  lanes.fill(impossible);
  const std::size_t whole = logits.size() / lane_count * lane_count;
  for (std::size_t token = 0; token < whole; token += lane_count)
    for (std::size_t lane = 0; lane < lane_count; ++lane)
      lanes[lane] = logits[token + lane] > lanes[lane] ? logits[token + lane] : lanes[lane];
  float highest = *std::max_element(lanes.begin(), lanes.end());
  for (const float logit : logits.subspan(whole)) highest = std::max(highest, logit);
  return static_cast<core::token_id>(std::find(logits.begin(), logits.end(), highest) - logits.begin());
}

double log_of_sum(std::span<const float> logits) {
  const double highest = logits[best_token(logits)];
  if (std::isinf(highest)) return highest;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - highest);
  return highest + std::log(sum);
}

/// −infinity less −infinity is reported as the floor too.
float logprob_of(float logit, double normaliser) {
  const double logprob = double{logit} - normaliser;
  return logprob > double{sampler::lowest_logprob} ? static_cast<float>(logprob) : sampler::lowest_logprob;
}

/// A strict total order, so that every way of sorting gives the same result.
constexpr auto heavier = [](const auto& a, const auto& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
};

}  // namespace

sampler::sampler(core::sampling_params params, std::span<const core::token_id> history,
                 std::size_t prompt_length, std::span<const core::token_id> end_tokens,
                 std::size_t vocabulary_size)
    : params_(std::move(params)),
      end_tokens_(end_tokens.begin(), end_tokens.end()),
      vocabulary_size_(vocabulary_size) {
  YOLK_INVARIANT(vocabulary_size > 0);
  YOLK_INVARIANT(prompt_length <= history.size(), prompt_length, history.size());
  end_tokens_.insert(end_tokens_.end(), params_.stop_token_ids.begin(), params_.stop_token_ids.end());
  const bool counts = params_.presence_penalty != 0 || params_.frequency_penalty != 0;
  if (counts || params_.repetition_penalty != 1) {
    generated_counts_.resize(vocabulary_size);
    seen_.resize(vocabulary_size);
  }
  for (const core::token_id token : history.first(prompt_length))
    if (token < seen_.size()) seen_[token] = true;
  length_ = prompt_length;
  for (const core::token_id token : history.subspan(prompt_length)) accept(token);
}

std::size_t sampler::generated_count() const {
  return generated_;
}

void sampler::accept(core::token_id token) {
  ++length_;
  ++generated_;
  if (token >= seen_.size()) return;
  seen_[token] = true;
  ++generated_counts_[token];
}

core::sampled_token sampler::sample(std::span<float> logits) {
  YOLK_INVARIANT(logits.size() == vocabulary_size_, logits.size(), vocabulary_size_);
  make_finite(logits);
  core::sampled_token chosen;
  // The alternatives and the normaliser come from the untouched logits; the chosen token's own is kept below.
  double normaliser = 0;
  if (params_.logprobs) {
    normaliser = log_of_sum(logits);
    list_top_logprobs(logits, normaliser, chosen);
    raw_.assign(logits.begin(), logits.end());
  }

  for (const auto& [token, bias] : params_.logit_bias)
    if (token < logits.size()) logits[token] += bias;
  forbid_end_tokens(logits);
  if (!seen_.empty()) penalise(logits);
  if (!params_.logit_bias.empty() || !seen_.empty()) make_finite(logits);

  chosen.token = params_.temperature < greedy_below ? best_token(logits) : draw(logits);
  if (params_.logprobs) chosen.logprob = logprob_of(raw_[chosen.token], normaliser);
  accept(chosen.token);
  return chosen;
}

void sampler::forbid_end_tokens(std::span<float> logits) const {
  if (generated_ >= params_.min_tokens) return;
  for (const core::token_id token : end_tokens_)
    if (token < logits.size()) logits[token] = impossible;
}

void sampler::penalise(std::span<float> logits) const {
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (!seen_[token]) continue;
    float& logit = logits[token];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
    if (const std::uint32_t count = generated_counts_[token]; count > 0)
      logit -= params_.frequency_penalty * static_cast<float>(count) + params_.presence_penalty;
  }
}

void sampler::list_top_logprobs(std::span<const float> logits, double normaliser, core::sampled_token& out) {
  const std::size_t count = std::min<std::size_t>(params_.top_logprobs, logits.size());
  if (count == 0) return;
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), core::token_id{0});
  std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(count), order_.end(),
                    [&](core::token_id a, core::token_id b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  for (std::size_t i = 0; i < count; ++i)
    out.top.emplace_back(order_[i], logprob_of(logits[order_[i]], normaliser));
}

/// Fills candidates_ in ascending order of ids with all that min_p leaves.
void sampler::collect_candidates(std::span<const float> logits, float highest) {
  candidates_.clear();
  const double inverse_temperature = 1.0 / double{params_.temperature};
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const double exponent = (double{logits[token]} - highest) * inverse_temperature;
    if (!(exponent >= lightest_exponent)) continue;
    const double weight = std::exp(exponent);
    if (weight < double{params_.min_p}) continue;
    candidates_.push_back({logits[token], static_cast<core::token_id>(token), weight});
  }
}

/// Puts the heaviest candidates in front, in order, until their weights sum up to `wanted`; says how many
/// they are. What lies behind them stays unsorted.
std::size_t sampler::sort_until_mass(double wanted) {
  std::size_t sorted = 0;
  std::size_t batch = first_sorted_count;
  double mass = 0;
  while (sorted < candidates_.size()) {
    const std::size_t end = std::min(candidates_.size(), sorted + batch);
    std::partial_sort(candidates_.begin() + static_cast<std::ptrdiff_t>(sorted),
                      candidates_.begin() + static_cast<std::ptrdiff_t>(end), candidates_.end(), heavier);
    for (; sorted < end; ++sorted) {
      mass += candidates_[sorted].weight;
      if (mass >= wanted) return sorted + 1;
    }
    batch *= 2;
  }
  return sorted;
}

core::token_id sampler::draw(std::span<const float> logits) {
  const core::token_id best = best_token(logits);
  if (logits[best] == impossible) return best;
  collect_candidates(logits, logits[best]);
  YOLK_INVARIANT(!candidates_.empty(), logits[best], params_.min_p, params_.temperature);

  // Every sum runs over a fixed order (ids, or weights with ties by id), so that it has the same bits
  // everywhere.
  const auto mass_of = [&] {
    double sum = 0;
    for (const candidate& each : candidates_) sum += each.weight;
    return sum;
  };
  if (params_.top_k > 0 && params_.top_k < candidates_.size()) {
    std::partial_sort(candidates_.begin(), candidates_.begin() + params_.top_k, candidates_.end(), heavier);
    candidates_.resize(params_.top_k);
  }
  if (params_.top_p < 1) candidates_.resize(sort_until_mass(double{params_.top_p} * mass_of()));

  const double target = double{core::uniform_float(params_.seed, length_)} * mass_of();
  double mass = 0;
  for (const candidate& each : candidates_) {
    mass += each.weight;
    if (mass > target) return each.token;
  }
  return candidates_.back().token;
}

}  // namespace yolk::model
