#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/device.hpp"
#include "kvcache/block_key.hpp"
#include "model/errc.hpp"
#include "model/loaded_model.hpp"
#include "model/rope_tables.hpp"
#include "model/safetensors.hpp"

namespace yolk::model {

using packed_matrix = std::shared_ptr<const gpu::weight_matrix>;

/// One layer: projections packed for the platform, the rest as floats.
struct layer_weights {
  std::vector<float> attention_norm;  ///< [hidden]
  packed_matrix qkv;                  ///< [(query heads + 2 · KV heads) · head_dim][hidden]
  std::vector<float> qkv_bias;        ///< [rows of qkv], or empty
  std::vector<float> q_norm;          ///< [head_dim], or empty
  std::vector<float> k_norm;          ///< [head_dim], or empty
  packed_matrix output;               ///< [hidden][query heads · head_dim]
  std::vector<float> mlp_norm;        ///< [hidden]
  packed_matrix gate_up;              ///< [2 · intermediate][hidden]
  packed_matrix down;                 ///< [hidden][intermediate]
};

/// A model's weights, packed once for a platform and shared by all its workers. Immutable.
class transformer_weights {
 public:
  /// Packs tensor by tensor and lets go of each one's file pages, so that memory holds the packed weights and
  /// at most one tensor of the file at a time. Errors name file and tensor.
  static result<std::shared_ptr<const transformer_weights>> load(const model_config& config,
                                                                 const tensor_set& tensors,
                                                                 gpu::platform& platform);

  packed_matrix embedding;  ///< [vocabulary][hidden]
  packed_matrix head;       ///< [vocabulary][hidden]; the embedding itself where they are tied
  std::vector<layer_weights> layers;
  std::vector<float> final_norm;  ///< [hidden]
  rope_tables rope;
  std::uint64_t parameter_count = 0;
  kvcache::block_key content;      ///< hash of names, shapes, types and every byte of the tensors used
  std::uint64_t memory_bytes = 0;  ///< packed matrices and vectors, without the rotation tables
};

/// The tensors that a configuration needs, checked against what the files declare: counts of elements and
/// bytes in the files. Reads no weight.
struct declared_weights {
  std::uint64_t parameter_count = 0;
  std::uint64_t file_bytes = 0;
  std::string dtype;  ///< that of the embedding: "BF16"
};
result<declared_weights> check_declared_weights(const model_config& config, const tensor_set& tensors);

}  // namespace yolk::model
