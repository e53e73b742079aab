#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "core/bfloat16.hpp"
#include "core/ids.hpp"
#include "tests/model/random_model.hpp"

namespace yolk::model::testing {

/// A whole model in plain loops and double precision, from the numbers of its files: no blocks, no batches,
/// no fused matrices, no code of Yolk's but the rounding to bf16. Weight matrices, K and V are rounded to
/// bf16, as they are stored; all else is exact.
class reference_model {
 public:
  explicit reference_model(const random_model& model) : config_(model.config), values_(model.values) {
    for (auto& [name, values] : values_)
      if (name.find("norm") == std::string::npos && name.find("bias") == std::string::npos)
        for (double& value : values) value = rounded(value);
  }

  using rows = std::vector<std::vector<double>>;

  /// Logits after every token.
  rows logits(const std::vector<core::token_id>& tokens) const {
    const std::size_t hidden = config_["hidden_size"];
    rows x;
    for (const core::token_id token : tokens) {
      const double* row = values_.at("model.embed_tokens.weight").data() + token * hidden;
      x.emplace_back(row, row + hidden);
    }
    for (unsigned layer = 0; layer < config_["num_hidden_layers"]; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      add(x, linear(attention(normalised(x, prefix + "input_layernorm.weight"), prefix + "self_attn."),
                    prefix + "self_attn.o_proj"));
      const rows normed = normalised(x, prefix + "post_attention_layernorm.weight");
      rows gate = linear(normed, prefix + "mlp.gate_proj");
      const rows up = linear(normed, prefix + "mlp.up_proj");
      for (std::size_t t = 0; t < gate.size(); ++t)
        for (std::size_t i = 0; i < gate[t].size(); ++i) gate[t][i] *= up[t][i] / (1 + std::exp(-gate[t][i]));
      add(x, linear(gate, prefix + "mlp.down_proj"));
    }
    return linear(normalised(x, "model.norm.weight"),
                  config_["tie_word_embeddings"].get<bool>() ? "model.embed_tokens" : "lm_head");
  }

 private:
  static double rounded(double value) { return core::to_float(core::to_bfloat16(static_cast<float>(value))); }

  static void add(rows& x, const rows& y) {
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
  }

  rows linear(const rows& x, const std::string& name) const {
    const std::vector<double>& weight = values_.at(name + ".weight");
    const auto bias = values_.find(name + ".bias");
    const std::size_t columns = x[0].size();
    rows out(x.size(), std::vector<double>(weight.size() / columns));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t n = 0; n < out[t].size(); ++n) {
        double sum = bias == values_.end() ? 0 : bias->second[n];
        for (std::size_t k = 0; k < columns; ++k) sum += x[t][k] * weight[n * columns + k];
        out[t][n] = sum;
      }
    }
    return out;
  }

  void normalise(double* x, const std::vector<double>& weight) const {
    double sum = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) sum += x[i] * x[i];
    const double scale = 1 / std::sqrt(sum / double(weight.size()) + config_["rms_norm_eps"].get<double>());
    for (std::size_t i = 0; i < weight.size(); ++i) x[i] *= scale * weight[i];
  }

  rows normalised(rows x, const std::string& name) const {
    for (auto& row : x) normalise(row.data(), values_.at(name));
    return x;
  }

  double frequency(std::size_t pair) const {
    const std::size_t dim = config_["head_dim"];
    const double plain = 1 / std::pow(config_["rope_theta"].get<double>(), 2 * double(pair) / double(dim));
    if (!config_.contains("rope_scaling") || config_["rope_scaling"].is_null()) return plain;
    const nlohmann::json& scaling = config_["rope_scaling"];
    const double factor = scaling["factor"];
    if (scaling["rope_type"] == "linear") return plain / factor;
    const double low = scaling["low_freq_factor"];
    const double high = scaling["high_freq_factor"];
    const double turns =
        scaling["original_max_position_embeddings"].get<double>() * plain / (2 * std::numbers::pi);
    if (turns > high) return plain;
    if (turns < low) return plain / factor;
    const double smooth = (turns - low) / (high - low);
    return (1 - smooth) * plain / factor + smooth * plain;
  }

  void rotate(double* head, std::size_t position) const {
    const std::size_t half = config_["head_dim"].get<std::size_t>() / 2;
    for (std::size_t d = 0; d < half; ++d) {
      const double angle = double(position) * frequency(d);
      const double a = head[d];
      const double b = head[d + half];
      head[d] = a * std::cos(angle) - b * std::sin(angle);
      head[d + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }

  rows attention(const rows& x, const std::string& prefix) const {
    const std::size_t dim = config_["head_dim"];
    const std::size_t heads = config_["num_attention_heads"];
    const std::size_t kv_heads = config_["num_key_value_heads"];
    const bool norms = values_.contains(prefix + "q_norm.weight");
    rows q = linear(x, prefix + "q_proj");
    rows k = linear(x, prefix + "k_proj");
    rows v = linear(x, prefix + "v_proj");
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t h = 0; h < heads; ++h) {
        if (norms) normalise(&q[t][h * dim], values_.at(prefix + "q_norm.weight"));
        rotate(&q[t][h * dim], t);
      }
      for (std::size_t h = 0; h < kv_heads; ++h) {
        if (norms) normalise(&k[t][h * dim], values_.at(prefix + "k_norm.weight"));
        rotate(&k[t][h * dim], t);
      }
      for (double& value : k[t]) value = rounded(value);
      for (double& value : v[t]) value = rounded(value);
    }
    rows out(x.size(), std::vector<double>(heads * dim));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t at = h * kv_heads / heads * dim;
        std::vector<double> weights(t + 1);
        double total = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (std::size_t d = 0; d < dim; ++d) score += q[t][h * dim + d] * k[s][at + d];
          total += weights[s] = std::exp(score / std::sqrt(double(dim)));
        }
        for (std::size_t s = 0; s <= t; ++s)
          for (std::size_t d = 0; d < dim; ++d) out[t][h * dim + d] += weights[s] / total * v[s][at + d];
      }
    return out;
  }

  nlohmann::json config_;
  weight_values values_;
};

}  // namespace yolk::model::testing
