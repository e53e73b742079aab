#include "model/rope_tables.hpp"

#include <cmath>
#include <numbers>

namespace yolk::model {

namespace {

/// Llama 3.1's stretch: wavelengths that fit the original context several times stay, those longer than it
/// grow by the factor, between them is a linear passage.
double stretch_llama3(double frequency, const model_config& config) {
  const double original = config.original_context_length;
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / config.high_frequency_factor) return frequency;
  const double stretched = frequency / config.scaling_factor;
  if (wavelength > original / config.low_frequency_factor) return stretched;
  const double share = (original / wavelength - config.low_frequency_factor) /
                       (double{config.high_frequency_factor} - config.low_frequency_factor);
  return (1 - share) * stretched + share * frequency;
}

}  // namespace

std::vector<float> rope_frequencies(const model_config& config) {
  std::vector<float> frequencies(config.head_dim / 2);
  for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
    double frequency = std::pow(double{config.rope_base}, -2.0 * static_cast<double>(pair) / config.head_dim);
    if (config.scaling == rope_scaling::linear) frequency /= config.scaling_factor;
    if (config.scaling == rope_scaling::llama3) frequency = stretch_llama3(frequency, config);
    frequencies[pair] = static_cast<float>(frequency);
  }
  return frequencies;
}

rope_tables make_rope_tables(const model_config& config) {
  const std::vector<float> frequencies = rope_frequencies(config);
  rope_tables tables;
  tables.cosine.reserve(frequencies.size() * config.context_length);
  tables.sine.reserve(frequencies.size() * config.context_length);
  for (std::uint32_t position = 0; position < config.context_length; ++position) {
    for (const float frequency : frequencies) {
      const double angle = double{frequency} * position;
      tables.cosine.push_back(static_cast<float>(std::cos(angle)));
      tables.sine.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return tables;
}

}  // namespace yolk::model
