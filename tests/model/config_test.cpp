#include "model/config.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/random.hpp"
#include "tests/model/model_files.hpp"

using namespace yolk::model;
using namespace yolk::model::testing;
using nlohmann::json;

namespace {

json llama() {
  return json::parse(
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":172,
    "num_hidden_layers":3,"num_attention_heads":8,"num_key_value_heads":2,"vocab_size":1000,"max_position_embeddings":8192,
    "rms_norm_eps":1e-5,"rope_theta":500000.0,"hidden_act":"silu","tie_word_embeddings":false,"attention_bias":false,
    "mlp_bias":false,"rope_scaling":null,"bos_token_id":1,"eos_token_id":[2,7],"torch_dtype":"bfloat16","pretraining_tp":1})");
}

json of_family(const std::string& type, const std::string& architecture) {
  json object = llama();
  object["model_type"] = type;
  object["architectures"] = {architecture};
  return object;
}

json with(json object, const std::string& field, const json& value) {
  object[field] = value;
  return object;
}

json without(json object, const std::string& field) {
  object.erase(field);
  return object;
}

model_config accepted(const json& object) {
  const auto config = parse_config(object.dump(), "dir/config.json");
  if (!config) FAIL(config.error().message);
  return *config;
}

void check_refused(const json& object, errc code, const std::string& names) {
  const auto config = parse_config(object.dump(), "dir/config.json");
  CAPTURE(names);
  REQUIRE_FALSE(config.has_value());
  CAPTURE(config.error().message);
  CHECK(config.error().code == code);
  CHECK(config.error().message.starts_with("dir/config.json: "));
  CHECK(config.error().message.find(names) != std::string::npos);
}

}  // namespace

TEST_CASE("a Llama configuration is read in full") {
  const model_config config = accepted(llama());
  CHECK(config.model_type == "llama");
  CHECK(config.layer_count == 3);
  CHECK(config.hidden_size == 64);
  CHECK(config.intermediate_size == 172);
  CHECK(config.query_head_count == 8);
  CHECK(config.kv_head_count == 2);
  CHECK(config.head_dim == 8);
  CHECK(config.vocabulary_size == 1000);
  CHECK(config.context_length == 8192);
  CHECK(config.rms_norm_epsilon == 1e-5f);
  CHECK(config.rope_base == 500000.0f);
  CHECK(config.scaling == rope_scaling::none);
  CHECK_FALSE(config.tied_embeddings);
  CHECK_FALSE(config.qkv_bias);
  CHECK_FALSE(config.qk_norm);
  CHECK(config.end_tokens == std::vector<yolk::core::token_id>{2, 7});
  CHECK(config.notes.empty());
  CHECK(config.kv_layout(16).block_bytes() == 3 * 2 * 2 * 16 * 8 * 2);
}

TEST_CASE("an old Llama file without KV heads has as many as query heads") {
  CHECK(accepted(without(llama(), "num_key_value_heads")).kv_head_count == 8);
  check_refused(without(of_family("mistral", "MistralForCausalLM"), "num_key_value_heads"), errc::malformed,
                "num_key_value_heads");
}

TEST_CASE("each family has its own biases, norms and head size") {
  const model_config qwen2 =
      accepted(with(of_family("qwen2", "Qwen2ForCausalLM"), "use_sliding_window", false));
  CHECK(qwen2.qkv_bias);
  CHECK_FALSE(qwen2.qk_norm);
  const model_config qwen3 = accepted(of_family("qwen3", "Qwen3ForCausalLM"));
  CHECK_FALSE(qwen3.qkv_bias);
  CHECK(qwen3.qk_norm);
  CHECK(qwen3.head_dim == 128);  // not hidden / heads
  CHECK(accepted(with(of_family("qwen3", "Qwen3ForCausalLM"), "head_dim", 32)).head_dim == 32);
  CHECK(accepted(with(llama(), "head_dim", 16)).head_dim == 16);
  CHECK(accepted(with(llama(), "head_dim", nullptr)).head_dim == 8);
}

TEST_CASE("rotation scaling is read in the spellings of old and new files") {
  const json llama3 = json::parse(R"({"factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
                                      "original_max_position_embeddings":8192,"rope_type":"llama3"})");
  const model_config scaled = accepted(with(llama(), "rope_scaling", llama3));
  CHECK(scaled.scaling == rope_scaling::llama3);
  CHECK(scaled.scaling_factor == 8.0f);
  CHECK(scaled.high_frequency_factor == 4.0f);
  CHECK(scaled.original_context_length == 8192);
  const model_config linear = accepted(with(llama(), "rope_scaling", {{"type", "linear"}, {"factor", 2}}));
  CHECK(linear.scaling == rope_scaling::linear);
  CHECK(linear.scaling_factor == 2.0f);
  json parameters = llama3;
  parameters["rope_theta"] = 1000000;
  const model_config newer = accepted(with(without(llama(), "rope_theta"), "rope_parameters", parameters));
  CHECK(newer.scaling == rope_scaling::llama3);
  CHECK(newer.rope_base == 1e6f);
  const model_config plain = accepted(with(without(llama(), "rope_theta"), "rope_parameters",
                                           {{"rope_type", "default"}, {"rope_theta", 20000}}));
  CHECK(plain.scaling == rope_scaling::none);
  CHECK(plain.rope_base == 20000.0f);
}

TEST_CASE("a sliding window limits the context and says so") {
  const json mistral = of_family("mistral", "MistralForCausalLM");
  const model_config windowed = accepted(with(mistral, "sliding_window", 4096));
  CHECK(windowed.sliding_window == 4096);
  CHECK(windowed.context_length == 4096);
  REQUIRE(windowed.notes.size() == 1);
  CHECK(windowed.notes[0].find("4096") != std::string::npos);
  const model_config open = accepted(with(mistral, "sliding_window", nullptr));
  CHECK(open.context_length == 8192);
  CHECK(open.notes.empty());
  CHECK(accepted(mistral).context_length == 4096);  // the family's default
  CHECK(accepted(with(mistral, "sliding_window", 8192)).notes.empty());
  json qwen = with(of_family("qwen2", "Qwen2ForCausalLM"), "sliding_window", 1024);
  CHECK(accepted(qwen).context_length == 8192);
  qwen["use_sliding_window"] = true;
  CHECK(accepted(qwen).context_length == 1024);
  CHECK(accepted(with(qwen, "max_window_layers", 3)).context_length == 8192);  // no layer is windowed
  CHECK(accepted(with(qwen, "max_window_layers", 2)).context_length == 1024);
  CHECK(accepted(with(qwen, "layer_types", {"full_attention", "full_attention"})).context_length == 8192);
  CHECK(accepted(with(qwen, "layer_types", {"full_attention", "sliding_attention"})).context_length == 1024);
}

TEST_CASE("what would change the arithmetic is refused with field and value") {
  check_refused(of_family("mixtral", "MixtralForCausalLM"), errc::unsupported, "model_type: \"mixtral\"");
  check_refused(of_family("llama", "LlamaForSequenceClassification"), errc::unsupported, "architectures");
  check_refused(with(llama(), "hidden_act", "gelu"), errc::unsupported, "hidden_act: \"gelu\"");
  check_refused(with(llama(), "attention_bias", true), errc::unsupported, "attention_bias: true");
  check_refused(with(of_family("qwen3", "Qwen3ForCausalLM"), "attention_bias", true), errc::unsupported,
                "attention_bias");
  check_refused(with(llama(), "mlp_bias", true), errc::unsupported, "mlp_bias");
  check_refused(with(llama(), "num_local_experts", 8), errc::unsupported, "num_local_experts: 8");
  check_refused(with(llama(), "quantization_config", {{"quant_method", "gptq"}}), errc::unsupported,
                "quantization_config");
  check_refused(with(llama(), "partial_rotary_factor", 0.5), errc::unsupported, "partial_rotary_factor");
  check_refused(with(llama(), "rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}), errc::unsupported,
                "rope_scaling.rope_type: \"yarn\"");
  check_refused(with(llama(), "rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4.0}}), errc::unsupported,
                "dynamic");
  check_refused(with(llama(), "rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}),
                errc::unsupported, "rope_parameters.full_attention");
  check_refused(with(llama(), "layer_types", {"linear_attention"}), errc::unsupported, "layer_types");
  check_refused(with(llama(), "head_dim", 7), errc::unsupported, "head_dim: 7");
}

TEST_CASE("every number is checked against its range") {
  for (const char* field : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                            "num_key_value_heads", "vocab_size", "max_position_embeddings"}) {
    for (const json& value : {json(0), json(-1), json(1.5), json("8"), json(true), json::array(),
                              json(1ull << 40), json(18446744073709551615ull), json::object()})
      check_refused(with(llama(), field, value), errc::malformed, std::string(field) + ": ");
    if (std::string_view(field) != "num_key_value_heads")
      check_refused(without(llama(), field), errc::malformed, std::string(field) + ": is missing");
  }
  for (const json& value : {json(0), json(-1e-5), json("x"), json(2.0)})
    check_refused(with(llama(), "rms_norm_eps", value), errc::malformed, "rms_norm_eps");
  for (const json& value : {json(0), json(-5), json(1e300), json("x")})
    check_refused(with(llama(), "rope_theta", value), errc::malformed, "rope_theta");
  for (const json& value : {json(1000), json(-1), json({2, "x"}), json(std::vector<int>(65, 1)), json(1.0)})
    check_refused(with(llama(), "eos_token_id", value), errc::malformed, "eos_token_id");
  check_refused(with(llama(), "tie_word_embeddings", "yes"), errc::malformed, "tie_word_embeddings");
  check_refused(with(llama(), "num_key_value_heads", 3), errc::inconsistent, "num_key_value_heads");
  check_refused(with(llama(), "num_attention_heads", 6), errc::inconsistent, "hidden_size");
  check_refused(with(llama(), "rope_scaling", {{"type", "linear"}}), errc::malformed,
                "rope_scaling.factor: is missing");
  check_refused(with(llama(), "rope_scaling", {{"type", "linear"}, {"factor", 0}}), errc::malformed,
                "rope_scaling.factor");
  check_refused(with(llama(), "rope_scaling", 7), errc::malformed, "rope_scaling: 7");
  check_refused(with(llama(), "rope_scaling", {{"type", 7}}), errc::malformed, "rope_scaling.type: 7");
  check_refused(with(llama(), "rope_scaling",
                     {{"type", "llama3"},
                      {"factor", 8},
                      {"low_freq_factor", 4},
                      {"high_freq_factor", 4},
                      {"original_max_position_embeddings", 8192}}),
                errc::inconsistent, "rope_scaling.high_freq_factor");
}

TEST_CASE("the end tokens come from generation_config.json before config.json") {
  const temporary_folder folder;
  write_file(folder.path() / "config.json", llama().dump());
  auto config = load_config(folder.path());
  REQUIRE(config.has_value());
  CHECK(config->end_tokens == std::vector<yolk::core::token_id>{2, 7});
  write_file(folder.path() / "generation_config.json", R"({"eos_token_id":[5,6,9],"temperature":0.6})");
  config = load_config(folder.path());
  REQUIRE(config.has_value());
  CHECK(config->end_tokens == std::vector<yolk::core::token_id>{5, 6, 9});
  write_file(folder.path() / "generation_config.json", R"({"temperature":0.6})");
  CHECK(load_config(folder.path())->end_tokens == std::vector<yolk::core::token_id>{2, 7});
  write_file(folder.path() / "generation_config.json", R"({"eos_token_id":4000})");
  const auto refused = load_config(folder.path());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("generation_config.json: eos_token_id") != std::string::npos);
  const auto nowhere = load_config(folder.path() / "nowhere");
  REQUIRE_FALSE(nowhere.has_value());
  CHECK(nowhere.error().code == errc::not_found);
}

TEST_CASE("no cut or changed byte of a configuration crashes, and a cut one is refused") {
  const std::uint64_t seed = 97;
  MESSAGE("seed ", seed);
  yolk::core::random_source random(seed);
  const std::string text = llama().dump();
  for (std::size_t size = 0; size < text.size(); ++size)
    CHECK_FALSE(parse_config(text.substr(0, size), "c").has_value());
  for (int round = 0; round < 2000; ++round) {
    std::string changed = text;
    changed[random.below(changed.size())] = static_cast<char>(random.below(256));
    const auto config = parse_config(changed, "c");
    if (!config) {
      CHECK(config.error().message.starts_with("c: "));
      continue;
    }
    CHECK(config->query_head_count % config->kv_head_count == 0);
    CHECK(config->head_dim >= 2);
  }
}
