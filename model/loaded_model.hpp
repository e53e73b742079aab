#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "gpu/device.hpp"
#include "kvcache/segment_layout.hpp"
#include "model/chat_template.hpp"
#include "model/errc.hpp"
#include "model/tokenizer.hpp"

namespace yolk::model {

enum class rope_scaling : std::uint8_t { none, linear, llama3 };

/// config.json of a Hugging Face folder, checked.
struct model_config {
  std::string model_type;  ///< llama, mistral, qwen2, qwen3
  std::uint32_t layer_count = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;
  std::uint32_t query_head_count = 0;
  std::uint32_t kv_head_count = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t context_length = 0;  ///< max_position_embeddings
  float rms_norm_epsilon = 1e-5f;
  float rope_base = 10000.0f;
  rope_scaling scaling = rope_scaling::none;
  float scaling_factor = 1.0f;
  float low_frequency_factor = 1.0f;
  float high_frequency_factor = 4.0f;
  std::uint32_t original_context_length = 0;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool qk_norm = false;
  std::uint32_t sliding_window = 0;  ///< 0 = none; a context within the window is served as full attention
  std::vector<core::token_id>
      end_tokens;                  ///< from generation_config.json, else config.json, else the tokenizer
  std::vector<std::string> notes;  ///< what an operator should know: a context cut to the window

  [[nodiscard]] kvcache::segment_layout kv_layout(std::uint32_t block_tokens) const;
};

class transformer_weights;  // model/transformer_weights.hpp

/// Everything that serving a model needs, shared by all workers of a process. Immutable.
struct loaded_model {
  std::string name;         ///< what clients call it: the folder's name
  std::string fingerprint;  ///< hash of config.json and of the tensors' names, types, shapes and contents
  model_config config;
  std::shared_ptr<const tokenizer> tokens;
  std::shared_ptr<const chat_template> chat;  ///< null when the model has none
  std::string chat_error;                     ///< why it has none: shown to who asks for chat
  std::shared_ptr<const transformer_weights> weights;
  std::uint64_t parameter_count = 0;
  std::uint64_t weight_bytes = 0;  ///< in memory, packed
};

/// Reads a folder; packs the weights for the platform. Errors name the file and the field.
result<std::shared_ptr<const loaded_model>> load_model(const std::filesystem::path& folder,
                                                       gpu::platform& platform);

/// The parts of load_model that need no weights in memory: for `yolk model inspect`.
struct model_summary {
  std::string name;
  model_config config;
  std::uint64_t parameter_count = 0;
  std::uint64_t weight_bytes = 0;  ///< in the files
  std::string weight_dtype;        ///< in the files: "BF16"
  std::string tokenizer_kind;      ///< "byte-level BPE" or "SentencePiece-style BPE"
  std::size_t vocabulary_size = 0;
  std::string chat_template_name;
};
result<model_summary> inspect_model(const std::filesystem::path& folder);

}  // namespace yolk::model
