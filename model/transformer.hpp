#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpu/device.hpp"
#include "kvcache/segment_layout.hpp"
#include "model/loaded_model.hpp"
#include "model/step_executor.hpp"
#include "model/transformer_weights.hpp"

namespace yolk::model {

struct transformer_options {
  model_config config;
  std::shared_ptr<const transformer_weights> weights;
  kvcache::segment_layout layout;
  std::byte* kv_pool = nullptr;  ///< block b lies at kv_pool + b · layout.block_bytes()
  std::uint32_t max_rows = 0;    ///< tokens in one step, at most
};

/// Llama's stack of layers over a device, one ragged step at a time. Its workspace is allocated once. Every
/// row's result depends on that row's tokens alone, never on what else is in the step. Owned and used by one
/// thread; the device outlives it.
class transformer {
 public:
  /// Rows of logits that are computed, and held, at a time.
  static constexpr std::uint32_t logit_rows = 32;

  transformer(transformer_options options, gpu::device& device);

  /// Computes the slices between the device's begin_step and end_step: writes their KV, calls on_layer as
  /// soon as a layer's KV is complete, and leaves the last hidden states of the slices that have samplers for
  /// logits().
  void compute(std::span<const step_slice> slices, const step_executor::layer_callback& on_layer);
  /// Slices whose logits are wanted, in order: indices into the slices of the last compute().
  [[nodiscard]] std::span<const std::uint32_t> wanted() const { return wanted_; }
  /// Logits of wanted()[first .. first + count), count ≤ logit_rows: [count][vocabulary]. Valid until the
  /// next call; the caller may overwrite them.
  std::span<float> logits(std::size_t first, std::size_t count);

 private:
  struct free_memory {
    void operator()(float* memory) const { std::free(memory); }
  };
  using buffer = std::unique_ptr<float[], free_memory>;
  static buffer allocate(std::size_t float_count);

  void lay_out_rows(std::span<const step_slice> slices);
  void write_kv(const layer_weights& layer, std::uint32_t index);
  void attend(std::uint32_t index, std::span<const gpu::row_span> readers);
  void feed_forward(const layer_weights& layer);
  void normalise(const std::vector<float>& weight, const float* from, std::size_t rows);
  void keep_wanted_rows();
  [[nodiscard]] gpu::kv_layer_view kv_view(std::uint32_t layer) const;

  transformer_options options_;
  gpu::device& device_;
  std::size_t hidden_;
  std::size_t inner_;
  std::size_t q_width_;
  std::size_t qkv_width_;

  // The open step.
  std::size_t row_count_ = 0;
  std::vector<core::token_id> tokens_;
  std::vector<gpu::row_span> spans_;
  std::vector<gpu::row_span> last_rows_;  ///< of the wanted slices
  std::vector<std::uint32_t> wanted_;

  // Workspace, [max_rows][…].
  buffer residual_;
  buffer normed_;
  buffer qkv_;
  buffer q_;
  buffer attention_;
  buffer gate_up_;
  buffer activated_;
  buffer logits_;  ///< [logit_rows][vocabulary]
};

}  // namespace yolk::model
