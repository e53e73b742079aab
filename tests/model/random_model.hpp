#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/bfloat16.hpp"
#include "core/random.hpp"
#include "tests/model/model_files.hpp"

/// Small models with random weights, as files and as the numbers that the files hold.
namespace yolk::model::testing {

struct random_shape {
  std::string family = "llama";
  std::string dtype = "BF16";
  unsigned layers = 3;
  unsigned hidden = 48;
  unsigned inner = 80;
  unsigned query_heads = 4;
  unsigned kv_heads = 2;
  unsigned head_dim = 16;
  unsigned vocabulary = 97;
  unsigned context = 256;
  bool tied = false;
  nlohmann::json extra = nlohmann::json::object();  ///< merged into config.json
  std::size_t padding = 0;                          ///< behind the header of the weights' file
};

/// What a file says about itself: name → values, exactly as stored.
using weight_values = std::map<std::string, std::vector<double>>;

struct random_model {
  nlohmann::json config;
  std::map<std::string, raw_tensor> tensors;
  weight_values values;
};

/// Finite values in the range of normal binary16 numbers, cut (not rounded) to what 16 bits hold.
inline std::uint16_t half_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const int exponent = static_cast<int>((bits >> 23) & 255) - 112;
  if (exponent <= 0) return 0;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000u) | (unsigned(exponent) << 10) |
                                    ((bits >> 13) & 1023u));
}

inline double half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double magnitude = exponent == 0 ? 0.0 : std::ldexp(1024 + (bits & 1023), exponent - 25);
  return (bits >> 15) != 0 ? -magnitude : magnitude;
}

class random_model_maker {
 public:
  random_model_maker(random_shape shape, std::uint64_t seed) : shape_(std::move(shape)), random_(seed) {}

  random_model make() {
    const unsigned q_rows = shape_.query_heads * shape_.head_dim;
    const unsigned kv_rows = shape_.kv_heads * shape_.head_dim;
    add("model.embed_tokens.weight", {shape_.vocabulary, shape_.hidden}, 1.0, 0);
    if (!shape_.tied)
      add("lm_head.weight", {shape_.vocabulary, shape_.hidden}, 2 / std::sqrt(shape_.hidden), 0);
    add("model.norm.weight", {shape_.hidden}, 0.3, 1);
    for (unsigned layer = 0; layer < shape_.layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      add(prefix + "input_layernorm.weight", {shape_.hidden}, 0.3, 1);
      add(prefix + "post_attention_layernorm.weight", {shape_.hidden}, 0.3, 1);
      projection(prefix + "self_attn.q_proj", q_rows, shape_.hidden);
      projection(prefix + "self_attn.k_proj", kv_rows, shape_.hidden);
      projection(prefix + "self_attn.v_proj", kv_rows, shape_.hidden);
      matrix(prefix + "self_attn.o_proj", shape_.hidden, q_rows);
      matrix(prefix + "mlp.gate_proj", shape_.inner, shape_.hidden);
      matrix(prefix + "mlp.up_proj", shape_.inner, shape_.hidden);
      matrix(prefix + "mlp.down_proj", shape_.hidden, shape_.inner);
      if (shape_.family == "qwen3") {
        add(prefix + "self_attn.q_norm.weight", {shape_.head_dim}, 0.3, 1);
        add(prefix + "self_attn.k_norm.weight", {shape_.head_dim}, 0.3, 1);
      }
    }
    model_.config = config();
    return std::move(model_);
  }

 private:
  [[nodiscard]] nlohmann::json config() const {
    const std::map<std::string, std::string> names = {{"llama", "LlamaForCausalLM"},
                                                      {"mistral", "MistralForCausalLM"},
                                                      {"qwen2", "Qwen2ForCausalLM"},
                                                      {"qwen3", "Qwen3ForCausalLM"}};
    nlohmann::json out = {{"model_type", shape_.family},
                          {"architectures", {names.at(shape_.family)}},
                          {"num_hidden_layers", shape_.layers},
                          {"hidden_size", shape_.hidden},
                          {"intermediate_size", shape_.inner},
                          {"num_attention_heads", shape_.query_heads},
                          {"num_key_value_heads", shape_.kv_heads},
                          {"head_dim", shape_.head_dim},
                          {"vocab_size", shape_.vocabulary},
                          {"max_position_embeddings", shape_.context},
                          {"rms_norm_eps", 1e-5},
                          {"rope_theta", 10000.0},
                          {"sliding_window", nullptr},
                          {"tie_word_embeddings", shape_.tied},
                          {"eos_token_id", 0}};
    out.merge_patch(shape_.extra);
    return out;
  }

  void projection(const std::string& name, unsigned rows, unsigned columns) {
    matrix(name, rows, columns);
    if (shape_.family == "qwen2") add(name + ".bias", {rows}, 0.5, 0);
  }

  void matrix(const std::string& name, unsigned rows, unsigned columns) {
    add(name + ".weight", {rows, columns}, 1.7 / std::sqrt(columns), 0);
  }

  /// Uniform in centre ± spread.
  void add(const std::string& name, std::vector<std::uint64_t> shape, double spread, double centre) {
    raw_tensor tensor{shape_.dtype, std::move(shape), {}};
    std::size_t count = 1;
    for (const std::uint64_t size : tensor.shape) count *= size;
    std::vector<double>& values = model_.values[name];
    for (std::size_t i = 0; i < count; ++i) {
      const double unit = static_cast<double>(random_.below(1u << 24)) / (1u << 23) - 1;
      values.push_back(append(tensor, static_cast<float>(centre + spread * unit)));
    }
    model_.tensors[name] = std::move(tensor);
  }

  double append(raw_tensor& tensor, float value) const {
    if (shape_.dtype == "F32") {
      tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
      return value;
    }
    const std::uint16_t bits = shape_.dtype == "F16" ? half_bits(value) : core::to_bfloat16(value).bits;
    tensor.bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    return shape_.dtype == "F16" ? half_value(bits) : double{core::to_float({bits})};
  }

  random_shape shape_;
  core::random_source random_;
  random_model model_;
};

inline random_model make_random_model(const random_shape& shape, std::uint64_t seed) {
  return random_model_maker(shape, seed).make();
}

inline void write_model(const random_model& model, const std::filesystem::path& folder,
                        std::size_t padding = 0) {
  write_file(folder / "config.json", model.config.dump());
  write_file(folder / "model.safetensors", safetensors_bytes(model.tensors, padding));
}

}  // namespace yolk::model::testing
