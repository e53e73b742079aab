#include "model/loaded_model.hpp"

#include <array>
#include <bit>
#include <span>
#include <system_error>
#include <utility>

#include "kvcache/block_header.hpp"
#include "kvcache/block_key.hpp"
#include "model/config.hpp"
#include "model/json_fields.hpp"
#include "model/safetensors.hpp"
#include "model/transformer_weights.hpp"

namespace yolk::model {

namespace {

constexpr std::size_t config_limit_bytes = 16u << 20;

/// What comes before any weight: small files, checked against each other.
struct description {
  model_config config;
  std::shared_ptr<const tokenizer> tokens;
};

std::string name_of(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(folder, error);
  return (error ? folder : real).filename().string();
}

result<description> read_description(const std::filesystem::path& folder) {
  auto config = load_config(folder);
  if (!config) return config.error();
  auto tokens = tokenizer::load(folder);
  if (!tokens) return tokens.error();
  if ((*tokens)->vocabulary_size() > config->vocabulary_size)
    return core::failure<errc>{errc::inconsistent, (folder / "tokenizer.json").string() +
                                                       ": has token ids up to " +
                                                       std::to_string((*tokens)->vocabulary_size() - 1) +
                                                       ", but vocab_size of config.json is " +
                                                       std::to_string(config->vocabulary_size)};
  if (const auto eos = (*tokens)->eos(); config->end_tokens.empty() && eos)
    config->end_tokens.push_back(*eos);
  return description{std::move(*config), std::move(*tokens)};
}

/// config.json as a whole and all weights: two models with one fingerprint compute the same.
result<std::string> fingerprint_of(const std::filesystem::path& folder, const transformer_weights& weights) {
  const auto text = read_text_file(folder / "config.json", config_limit_bytes);
  if (!text) return text.error();
  const std::uint64_t sum = kvcache::checksum(std::as_bytes(std::span(*text)));
  const auto words = std::bit_cast<std::array<core::token_id, 2>>(sum);
  return kvcache::to_string(kvcache::chain(weights.content, words));
}

}  // namespace

result<std::shared_ptr<const loaded_model>> load_model(const std::filesystem::path& folder,
                                                       gpu::platform& platform) {
  auto described = read_description(folder);
  if (!described) return described.error();
  const auto tensors = tensor_set::open(folder);
  if (!tensors) return tensors.error();
  auto weights = transformer_weights::load(described->config, *tensors, platform);
  if (!weights) return weights.error();
  auto fingerprint = fingerprint_of(folder, **weights);
  if (!fingerprint) return fingerprint.error();

  auto model = std::make_shared<loaded_model>();
  model->name = name_of(folder);
  model->fingerprint = std::move(*fingerprint);
  model->config = std::move(described->config);
  model->tokens = std::move(described->tokens);
  if (auto chat = chat_template::recognise(model->tokens)) {
    model->chat = std::move(*chat);
  } else {
    model->chat_error = chat.error().message;
  }
  model->parameter_count = (*weights)->parameter_count;
  model->weight_bytes = (*weights)->memory_bytes;
  model->weights = std::move(*weights);
  return std::shared_ptr<const loaded_model>(std::move(model));
}

result<model_summary> inspect_model(const std::filesystem::path& folder) {
  auto described = read_description(folder);
  if (!described) return described.error();
  const auto tensors = tensor_set::open(folder);
  if (!tensors) return tensors.error();
  const auto declared = check_declared_weights(described->config, *tensors);
  if (!declared) return declared.error();

  model_summary summary;
  summary.name = name_of(folder);
  summary.config = std::move(described->config);
  summary.parameter_count = declared->parameter_count;
  summary.weight_bytes = declared->file_bytes;
  summary.weight_dtype = declared->dtype;
  // Bytes that no other token covers are tokens of their own in the SentencePiece style only.
  summary.tokenizer_kind = described->tokens->find("<0x0A>") ? "SentencePiece-style BPE" : "byte-level BPE";
  summary.vocabulary_size = described->tokens->vocabulary_size();
  const auto chat = chat_template::recognise(described->tokens);
  summary.chat_template_name = chat ? (*chat)->name() : "none: " + chat.error().message;
  return summary;
}

}  // namespace yolk::model
