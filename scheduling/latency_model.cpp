#include "scheduling/latency_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace yolk::scheduling {

latency_coefficients a800_llama3_70b() {
  constexpr double kv_bytes_per_token = 327'680;  // 80 layers x 8 KV heads x 128 x (K and V) x 2 bytes
  latency_coefficients coefficients;
  coefficients.prefill = {.base_seconds = 0.068,
                          .per_token = 1.096e-4,
                          .per_token_squared = 7.42e-10,
                          .per_cached_token = 2.56e-6};
  coefficients.decode = {.base_seconds = 26.2e-3, .per_sequence = 0.14e-3, .per_context_token = 34.6e-9};
  coefficients.links[static_cast<std::size_t>(link_path::local)] = {.bytes_per_second = 102e9};
  coefficients.links[static_cast<std::size_t>(link_path::network)] = {.bytes_per_second = 87e9};
  coefficients.links[static_cast<std::size_t>(link_path::site)] = {.setup_seconds = 0.01,
                                                                   .bytes_per_second = 12.5e9};
  coefficients.kv_bytes_per_token = kv_bytes_per_token;
  return coefficients;
}

latency_coefficients unprofiled(double kv_bytes_per_token) {
  latency_coefficients coefficients;
  coefficients.prefill = {.per_token = 1e-3};
  coefficients.decode = {.base_seconds = 20e-3, .per_sequence = 1e-3, .per_context_token = 1e-7};
  // A pulled token costs a hundredth of a computed one.
  for (auto& link : coefficients.links) link.bytes_per_second = kv_bytes_per_token * 1e5;
  coefficients.kv_bytes_per_token = kv_bytes_per_token;
  return coefficients;
}

double latency_model::prefill_seconds(prefill_shape shape) const {
  const auto& c = coefficients_.prefill;
  const double n = shape.prompt_tokens;
  const double p = std::min(shape.cached_tokens, shape.prompt_tokens);
  return c.base_seconds + c.per_token * (n - p) + c.per_token_squared * (n - p) * (n + p) +
         c.per_cached_token * p;
}

double latency_model::decode_seconds(decode_shape shape) const {
  if (shape.sequences == 0) return 0.0;
  const auto& c = coefficients_.decode;
  return c.base_seconds + c.per_sequence * (shape.sequences - 1.0) +
         c.per_context_token * static_cast<double>(shape.context_tokens);
}

double latency_model::transfer_seconds(double bytes, link_path path, std::uint32_t sharing) const {
  if (bytes <= 0.0) return 0.0;
  const auto& link = coefficients_.links[static_cast<std::size_t>(path)];
  return link.setup_seconds + bytes * (1.0 + sharing) / link.bytes_per_second;
}

namespace {

constexpr std::size_t max_terms = 4;
using row = std::array<double, max_terms>;

/// Solves the normal equations of the columns in `used` by Cholesky's decomposition; false when they are
/// (nearly) dependent. Columns must be scaled to comparable lengths.
bool solve(const std::array<row, max_terms>& gram, const row& moment, std::uint32_t used, row& solution) {
  std::array<std::size_t, max_terms> index{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < max_terms; ++i)
    if ((used >> i & 1u) != 0) index[count++] = i;
  std::array<row, max_terms> lower{};
  row forward{};
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double rest = gram[index[i]][index[j]];
      for (std::size_t k = 0; k < j; ++k) rest -= lower[i][k] * lower[j][k];
      if (i != j) {
        lower[i][j] = rest / lower[j][j];
      } else {
        if (rest <= 1e-12 * gram[index[i]][index[i]]) return false;
        lower[i][i] = std::sqrt(rest);
      }
    }
    forward[i] = moment[index[i]];
    for (std::size_t k = 0; k < i; ++k) forward[i] -= lower[i][k] * forward[k];
    forward[i] /= lower[i][i];
  }
  solution = {};
  for (std::size_t i = count; i-- > 0;) {
    double rest = forward[i];
    for (std::size_t k = i + 1; k < count; ++k) rest -= lower[k][i] * solution[index[k]];
    solution[index[i]] = rest / lower[i][i];
  }
  return true;
}

/// min ||A x - 1|| with x >= 0, A's rows already divided by the observed times. With at most four columns
/// every set of positive coefficients can be tried, which is exact.
row fit_not_negative(const std::vector<row>& rows, std::size_t terms) {
  row scale{};
  for (const row& r : rows)
    for (std::size_t i = 0; i < terms; ++i) scale[i] = std::max(scale[i], std::abs(r[i]));
  std::array<row, max_terms> gram{};
  row moment{};
  for (const row& r : rows) {
    row scaled{};
    for (std::size_t i = 0; i < terms; ++i) scaled[i] = scale[i] > 0 ? r[i] / scale[i] : 0.0;
    for (std::size_t i = 0; i < terms; ++i) {
      moment[i] += scaled[i];
      for (std::size_t j = 0; j < terms; ++j) gram[i][j] += scaled[i] * scaled[j];
    }
  }
  row best{};
  double best_gain = 0.0;  // ||1||^2 - ||A x - 1||^2
  for (std::uint32_t used = 1; used < 1u << terms; ++used) {
    row candidate{};
    if (!solve(gram, moment, used, candidate)) continue;
    if (std::ranges::any_of(candidate, [](double x) { return x < 0.0; })) continue;
    double gain = 0.0;
    for (std::size_t i = 0; i < terms; ++i) gain += candidate[i] * moment[i];
    // A set that gains nothing over a smaller one is not taken.
    if (gain > best_gain * (1 + 1e-12)) {
      best_gain = gain;
      best = candidate;
    }
  }
  for (std::size_t i = 0; i < terms; ++i) best[i] = scale[i] > 0 ? best[i] / scale[i] : 0.0;
  return best;
}

template <class Sample, class Terms>
result<row> fit(std::span<const Sample> samples, std::size_t terms, Terms terms_of) {
  if (samples.size() < terms)
    return core::failure<errc>{errc::too_few_samples, "a fit of " + std::to_string(terms) +
                                                          " coefficients to " +
                                                          std::to_string(samples.size()) + " samples"};
  std::vector<row> rows;
  rows.reserve(samples.size());
  for (const Sample& sample : samples) {
    if (!(sample.seconds > 0.0) || !std::isfinite(sample.seconds))
      return core::failure<errc>{errc::bad_sample,
                                 "sample " + std::to_string(rows.size()) + " took no positive time"};
    row r = terms_of(sample.shape);
    for (double& value : r) value /= sample.seconds;
    rows.push_back(r);
  }
  return fit_not_negative(rows, terms);
}

template <class Sample, class Predict>
fit_error error_of(std::span<const Sample> samples, Predict predict) {
  fit_error error;
  for (const Sample& sample : samples) {
    const double relative = std::abs(predict(sample.shape) - sample.seconds) / sample.seconds;
    error.mean += relative / static_cast<double>(samples.size());
    error.largest = std::max(error.largest, relative);
  }
  return error;
}

}  // namespace

result<fitted<prefill_coefficients>> fit_prefill(std::span<const prefill_sample> samples) {
  auto solved = fit(samples, 4, [](prefill_shape shape) {
    const double n = shape.prompt_tokens;
    const double p = std::min(shape.cached_tokens, shape.prompt_tokens);
    return row{1.0, n - p, (n - p) * (n + p), p};
  });
  if (!solved) return solved.error();
  const row& x = *solved;
  latency_coefficients coefficients;
  coefficients.prefill = {x[0], x[1], x[2], x[3]};
  const latency_model model(coefficients);
  return fitted<prefill_coefficients>{coefficients.prefill, error_of(samples, [&](prefill_shape shape) {
                                        return model.prefill_seconds(shape);
                                      })};
}

result<fitted<decode_coefficients>> fit_decode(std::span<const decode_sample> samples) {
  auto solved = fit(samples, 3, [](decode_shape shape) {
    return row{1.0, shape.sequences - 1.0, static_cast<double>(shape.context_tokens), 0.0};
  });
  if (!solved) return solved.error();
  const row& x = *solved;
  latency_coefficients coefficients;
  coefficients.decode = {x[0], x[1], x[2]};
  const latency_model model(coefficients);
  return fitted<decode_coefficients>{coefficients.decode, error_of(samples, [&](decode_shape shape) {
                                       return model.decode_seconds(shape);
                                     })};
}

void online_correction::observe(double predicted_seconds, double observed_seconds) {
  const auto usable = [](double seconds) { return seconds > 0.0 && std::isfinite(seconds); };
  if (!usable(predicted_seconds) || !usable(observed_seconds)) return;
  const double error = std::abs(factor_ * predicted_seconds - observed_seconds) / observed_seconds;
  const double outlier = std::log(limits_.outlier);
  const double off =
      std::clamp(std::log(observed_seconds / predicted_seconds) - log_factor_, -outlier, outlier);
  // The first observation is worth more than the guess it replaces.
  const double weight = std::max(limits_.weight, 1.0 / (1.0 + static_cast<double>(observations_)));
  const double bound = std::log(limits_.largest);
  log_factor_ = std::clamp(log_factor_ + weight * off, -bound, bound);
  factor_ = std::exp(log_factor_);
  error_ += weight * (error - error_);
  ++observations_;
}

}  // namespace yolk::scheduling
