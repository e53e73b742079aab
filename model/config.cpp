#include "model/config.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "model/json_fields.hpp"

namespace yolk::model {

namespace {

using nlohmann::json;

constexpr std::size_t file_limit_bytes = 16u << 20;
constexpr std::uint32_t layer_limit = 1024;
constexpr std::uint32_t width_limit = 1u << 18;
constexpr std::uint32_t head_limit = 4096;
constexpr std::uint32_t head_dim_limit = 512;
constexpr std::uint32_t vocabulary_limit = 1u << 22;
constexpr std::size_t end_token_limit = 64;
constexpr std::uint32_t mistral_window = 4096;

/// What distinguishes the families; all are Llama's block otherwise.
struct family {
  std::string_view model_type;
  std::string_view architecture;
  bool qkv_bias;
  bool qk_norm;
  std::uint32_t head_dim;  ///< when the file gives none; 0 = hidden size / heads
  bool window_needs_flag;  ///< sliding_window counts only with use_sliding_window
};

constexpr std::array families = {
    family{"llama", "LlamaForCausalLM", false, false, 0, true},
    family{"mistral", "MistralForCausalLM", false, false, 0, false},
    family{"qwen2", "Qwen2ForCausalLM", true, false, 0, true},
    family{"qwen3", "Qwen3ForCausalLM", false, true, 128, true},
};

const family* find_family(json_fields& fields) {
  const std::string type = fields.text("model_type");
  if (fields.failed()) return nullptr;
  const auto* found = std::find_if(families.begin(), families.end(),
                                   [&](const family& each) { return each.model_type == type; });
  if (found == families.end()) {
    fields.fail(errc::unsupported, "model_type",
                shown(json(type)) + " is none of llama, mistral, qwen2, qwen3");
    return nullptr;
  }
  const json* names = fields.find("architectures");
  if (names == nullptr || *names == json::array()) return found;
  if (*names == json::array({std::string(found->architecture)})) return found;
  fields.fail(errc::unsupported, "architectures",
              shown(*names) + " is not [\"" + std::string(found->architecture) + "\"]");
  return nullptr;
}

/// Fields that, with any other value than the one given, would change the arithmetic.
void refuse_other_arithmetic(json_fields& fields, const family& kind) {
  const std::string activation = fields.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    fields.fail(errc::unsupported, "hidden_act", shown(json(activation)) + " is not silu");
  for (const char* field : {"attention_bias", "mlp_bias", "use_qkv_bias", "use_mrope", "clip_qkv"}) {
    const json* value = fields.find(field);
    // Qwen2 has biases on q, k and v whatever the file says; some files say it.
    const bool known = kind.qkv_bias && (std::string_view(field) == "attention_bias" ||
                                         std::string_view(field) == "use_qkv_bias");
    if (value != nullptr && *value != json(false) && !known)
      fields.fail(errc::unsupported, field, shown(*value) + " is not supported");
  }
  for (const char* field : {"num_experts", "num_local_experts", "n_routed_experts", "quantization_config",
                            "attn_logit_softcapping", "final_logit_softcapping", "moe_intermediate_size"}) {
    const json* value = fields.find(field);
    if (value != nullptr && *value != json(0))
      fields.fail(errc::unsupported, field, shown(*value) + " is not supported");
  }
  if (const double part = fields.number("partial_rotary_factor", {0, 1}, 1.0); part != 1)
    fields.fail(errc::unsupported, "partial_rotary_factor", std::to_string(part) + " is not 1");
}

void read_shape(json_fields& fields, const family& kind, model_config& config) {
  config.layer_count = fields.integer("num_hidden_layers", {1, layer_limit});
  config.hidden_size = fields.integer("hidden_size", {1, width_limit});
  config.intermediate_size = fields.integer("intermediate_size", {1, 4 * width_limit});
  config.query_head_count = fields.integer("num_attention_heads", {1, head_limit});
  // Llama's first files had no KV heads of their own; the other families always say.
  const auto missing_kv = kind.model_type == "llama" ? std::optional(config.query_head_count) : std::nullopt;
  config.kv_head_count = fields.integer("num_key_value_heads", {1, head_limit}, missing_kv);
  config.vocabulary_size = fields.integer("vocab_size", {1, vocabulary_limit});
  config.context_length = fields.integer("max_position_embeddings", {1, context_length_limit});
  config.rms_norm_epsilon = static_cast<float>(fields.number("rms_norm_eps", {1e-12, 1.0}, 1e-6));
  config.tied_embeddings = fields.flag("tie_word_embeddings", false);
  if (fields.failed()) return;

  std::uint32_t head_dim = kind.head_dim;
  if (head_dim == 0 && fields.find("head_dim") == nullptr) {
    if (config.hidden_size % config.query_head_count != 0)
      fields.fail(errc::inconsistent, "hidden_size",
                  std::to_string(config.hidden_size) + " is not a multiple of num_attention_heads " +
                      std::to_string(config.query_head_count));
    head_dim = config.hidden_size / config.query_head_count;
  }
  config.head_dim = fields.integer("head_dim", {2, head_dim_limit}, head_dim);
  if (config.head_dim < 2 || config.head_dim > head_dim_limit || config.head_dim % 2 != 0)
    fields.fail(errc::unsupported, "head_dim",
                std::to_string(config.head_dim) + " is not an even number from 2 to " +
                    std::to_string(head_dim_limit));
  if (config.query_head_count % config.kv_head_count != 0)
    fields.fail(errc::inconsistent, "num_attention_heads",
                std::to_string(config.query_head_count) + " is not a multiple of num_key_value_heads " +
                    std::to_string(config.kv_head_count));
}

void read_rope_scaling(json_fields& rope, model_config& config) {
  // Older files say "type", newer ones "rope_type"; some say both.
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "default") return;
  if (type == "linear") {
    config.scaling = rope_scaling::linear;
    config.scaling_factor = static_cast<float>(rope.number("factor", {1e-3, 1e6}));
  } else if (type == "llama3") {
    config.scaling = rope_scaling::llama3;
    config.scaling_factor = static_cast<float>(rope.number("factor", {1e-3, 1e6}));
    config.low_frequency_factor = static_cast<float>(rope.number("low_freq_factor", {1e-3, 1e6}));
    config.high_frequency_factor = static_cast<float>(rope.number("high_freq_factor", {1e-3, 1e6}));
    config.original_context_length =
        rope.integer("original_max_position_embeddings", {1, context_length_limit});
    if (!rope.failed() && config.high_frequency_factor <= config.low_frequency_factor)
      rope.fail(errc::inconsistent, "high_freq_factor",
                std::to_string(config.high_frequency_factor) + " is not above low_freq_factor " +
                    std::to_string(config.low_frequency_factor));
  } else {
    rope.fail(errc::unsupported, "rope_type", shown(json(type)) + " is none of default, linear, llama3");
  }
}

/// `rope_theta` and `rope_scaling` at the top, or both inside `rope_parameters` in newer files.
std::optional<core::failure<errc>> read_rope(json_fields& fields, const std::string& file,
                                             model_config& config) {
  constexpr json_fields::number_range base_range{1, 1e12};
  config.rope_base = static_cast<float>(fields.number("rope_theta", base_range, 10000.0));
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const json* object = fields.find(field);
    if (object == nullptr) continue;
    if (!object->is_object()) {
      fields.fail(errc::malformed, field, shown(*object) + " is not an object");
      break;
    }
    json_fields rope(*object, file, std::string(field) + ".");
    config.rope_base = static_cast<float>(rope.number("rope_theta", base_range, double{config.rope_base}));
    for (const auto& [name, value] : object->items())
      if (value.is_object())
        rope.fail(errc::unsupported, name, "rotations that differ by kind of layer are not supported");
    if (const double part = rope.number("partial_rotary_factor", {0, 1}, 1.0); part != 1)
      rope.fail(errc::unsupported, "partial_rotary_factor", std::to_string(part) + " is not 1");
    if (config.scaling == rope_scaling::none) read_rope_scaling(rope, config);
    if (rope.failed()) return rope.failure();
  }
  return {};
}

/// Whether any layer looks through a window only. Newer files list the kind of every layer; that list
/// decides.
bool has_window(json_fields& fields, const family& kind, const model_config& config) {
  const json* types = fields.find("layer_types");
  if (types == nullptr) {
    const std::uint32_t first_layer = fields.integer("max_window_layers", {0, layer_limit}, 0);
    return (!kind.window_needs_flag || fields.flag("use_sliding_window", false)) &&
           first_layer < config.layer_count;
  }
  bool window = false;
  for (const json& type : types->is_array() ? *types : json::array({*types})) {
    if (type != json("full_attention") && type != json("sliding_attention"))
      fields.fail(errc::unsupported, "layer_types",
                  shown(type) + " is neither full_attention nor sliding_attention");
    window = window || type == json("sliding_attention");
  }
  return window;
}

/// Within the window, sliding attention is full attention: so the context is cut to it rather than the model
/// refused.
void read_window(json_fields& fields, const family& kind, model_config& config) {
  if (!has_window(fields, kind, config)) return;
  // Mistral's window is 4,096 tokens unless the file says otherwise; null says that there is none.
  const bool silent = !kind.window_needs_flag && !fields.contains("sliding_window");
  if (!silent && fields.find("sliding_window") == nullptr) return;
  const std::uint32_t window = fields.integer("sliding_window", {1, 1u << 30}, mistral_window);
  if (fields.failed()) return;
  config.sliding_window = window;
  if (window >= config.context_length) return;
  config.notes.push_back("sliding_window: the context is limited to the window of " + std::to_string(window) +
                         " tokens (max_position_embeddings is " + std::to_string(config.context_length) +
                         ")");
  config.context_length = window;
}

/// `eos_token_id`: an id, a list of ids, or nothing.
void read_end_tokens(json_fields& fields, model_config& config) {
  const json* value = fields.find("eos_token_id");
  if (value == nullptr) return;
  const json list = value->is_array() ? *value : json::array({*value});
  std::vector<core::token_id> tokens;
  for (const json& id : list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= config.vocabulary_size ||
        list.size() > end_token_limit) {
      fields.fail(errc::malformed, "eos_token_id",
                  shown(*value) + " is neither a token id below vocab_size " +
                      std::to_string(config.vocabulary_size) + " nor a list of at most " +
                      std::to_string(end_token_limit));
      return;
    }
    tokens.push_back(id.get<core::token_id>());
  }
  if (!tokens.empty()) config.end_tokens = std::move(tokens);
}

}  // namespace

result<model_config> parse_config(std::string_view text, std::string_view name) {
  const auto object = parse_json_object(text, name, {});
  if (!object) return object.error();
  const std::string file(name);
  json_fields fields(*object, file);
  model_config config;
  const family* kind = find_family(fields);
  if (kind == nullptr) return fields.failure();
  config.model_type = kind->model_type;
  config.qkv_bias = kind->qkv_bias;
  config.qk_norm = kind->qk_norm;
  refuse_other_arithmetic(fields, *kind);
  read_shape(fields, *kind, config);
  if (fields.failed()) return fields.failure();
  if (auto failure = read_rope(fields, file, config)) return *failure;
  read_window(fields, *kind, config);
  read_end_tokens(fields, config);
  if (fields.failed()) return fields.failure();
  return config;
}

result<core::void_t> apply_generation_config(model_config& config, std::string_view text,
                                             std::string_view name) {
  const auto object = parse_json_object(text, name, {});
  if (!object) return object.error();
  json_fields fields(*object, std::string(name));
  read_end_tokens(fields, config);
  if (fields.failed()) return fields.failure();
  return core::void_t{};
}

result<model_config> load_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  const auto text = read_text_file(path, file_limit_bytes);
  if (!text) return text.error();
  auto config = parse_config(*text, path.string());
  if (!config) return config;
  const std::filesystem::path generation = folder / "generation_config.json";
  const auto generation_text = read_text_file(generation, file_limit_bytes);
  if (generation_text) {
    if (auto applied = apply_generation_config(*config, *generation_text, generation.string()); !applied)
      return applied.error();
  } else if (generation_text.error().code != errc::not_found) {
    return generation_text.error();
  }
  return config;
}

kvcache::segment_layout model_config::kv_layout(std::uint32_t block_tokens) const {
  return {.layer_count = layer_count,
          .kv_head_count = kv_head_count,
          .head_dim = head_dim,
          .block_tokens = block_tokens,
          .element_bytes = 2};
}

}  // namespace yolk::model
