#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "core/sampling_params.hpp"
#include "gpu/device.hpp"
#include "kvcache/segment_layout.hpp"
#include "model/errc.hpp"
#include "model/loaded_model.hpp"
#include "model/sampler.hpp"

namespace yolk::model {

/// One sequence's part of a step: `tokens` are computed at positions first_position ..; KV of earlier
/// positions is in `blocks` already, that of these is written there. Where `samplers` is not empty, each
/// chooses one token from the logits of the last row (several: the n > 1 choices of one prompt).
struct step_slice {
  std::vector<core::token_id> tokens;
  std::uint32_t first_position = 0;
  std::vector<core::block_index> blocks;
  std::vector<std::shared_ptr<sampler>> samplers;
};

/// What one call of the device computes: a ragged batch of prefill chunks and decode tokens.
struct step {
  gpu::step_class kind = gpu::step_class::decode;
  std::vector<step_slice> slices;
};

struct step_result {
  /// samples[slice][sampler]. Empty for a slice whose logits held no finite number: there is nothing to
  /// choose from.
  std::vector<std::vector<core::sampled_token>> samples;
  core::duration elapsed{};
};

/// Runs steps one after another, away from the caller's thread, and tells when each is done. The worker's
/// actor asks; the host and CUDA devices compute; the simulated device waits.
class step_executor {
 public:
  /// Called on the executor's thread as soon as the KV of `layer` of this step is complete in the blocks.
  using layer_callback = std::function<void(std::uint32_t layer)>;
  using done_callback = std::function<void(step_result)>;
  virtual ~step_executor() = default;
  /// At most one step may be open. The blocks named in it must stay allocated until `done` runs.
  virtual void submit(step work, layer_callback on_layer, done_callback on_done) = 0;
};

struct transformer_executor_options {
  std::shared_ptr<const loaded_model> model;
  std::unique_ptr<gpu::device> device;
  kvcache::segment_layout layout;
  std::byte* kv_pool = nullptr;  ///< block b lies at kv_pool + b · layout.block_bytes()
  std::uint32_t max_rows = 0;    ///< tokens in one step, at most
  std::string thread_name;
};

/// The transformer over a real device, with a thread of its own that sleeps between steps.
std::unique_ptr<step_executor> make_transformer_executor(transformer_executor_options options);

}  // namespace yolk::model
