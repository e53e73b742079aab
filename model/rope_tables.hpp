#pragma once

#include <cstdint>
#include <vector>

#include "model/loaded_model.hpp"

namespace yolk::model {

/// cos and sin of position · frequency, each [context_length][head_dim / 2] (Su et al. 2021), with the
/// frequencies stretched as the configuration says. Frequencies are rounded to float, as the models were
/// trained with them; angles and functions are computed in double, so that far positions lose nothing.
struct rope_tables {
  std::vector<float> cosine;
  std::vector<float> sine;
};

rope_tables make_rope_tables(const model_config& config);

/// The frequency of each pair, [head_dim / 2].
std::vector<float> rope_frequencies(const model_config& config);

}  // namespace yolk::model
