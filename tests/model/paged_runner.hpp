#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "core/random.hpp"
#include "model/config.hpp"
#include "model/transformer.hpp"
#include "tests/model/random_model.hpp"

namespace yolk::model::testing {

struct model_on_platform {
  model_config config;
  std::shared_ptr<const transformer_weights> weights;
};

/// Writes the model, loads it with the product's code, packs it for the platform.
inline result<model_on_platform> load_random_model(const random_model& model, gpu::platform& platform,
                                                   std::size_t padding = 0) {
  const temporary_folder folder;
  write_model(model, folder.path(), padding);
  auto config = load_config(folder.path());
  if (!config) return config.error();
  const auto tensors = tensor_set::open(folder.path());
  if (!tensors) return tensors.error();
  auto weights = transformer_weights::load(*config, *tensors, platform);
  if (!weights) return weights.error();
  return model_on_platform{*config, *weights};
}

/// A transformer with a pool of blocks that are handed out in a shuffled order, full of NaNs until they are
/// written.
class paged_runner {
 public:
  paged_runner(const model_on_platform& model, gpu::platform& platform, std::uint32_t block_count,
               std::uint32_t max_rows, std::uint64_t seed)
      : config_(model.config),
        layout_(model.config.kv_layout(16)),
        device_(std::move(*platform.create_device())) {
    const std::size_t bytes = layout_.block_bytes() * block_count;
    pool_.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
    std::memset(pool_.get(), 0xff, bytes);
    free_.resize(block_count);
    std::iota(free_.begin(), free_.end(), core::block_index{0});
    core::random_source random(seed);
    for (std::size_t i = free_.size(); i > 1; --i) std::swap(free_[i - 1], free_[random.below(i)]);
    transformer_ = std::make_unique<transformer>(transformer_options{.config = model.config,
                                                                     .weights = model.weights,
                                                                     .layout = layout_,
                                                                     .kv_pool = pool_.get(),
                                                                     .max_rows = max_rows},
                                                 *device_);
  }

  [[nodiscard]] std::vector<core::block_index> blocks_for(std::uint32_t token_count) {
    std::vector<core::block_index> out;
    for (std::uint32_t i = 0; i < layout_.blocks_for(token_count); ++i) {
      YOLK_INVARIANT(!free_.empty());
      out.push_back(free_.back());
      free_.pop_back();
    }
    return out;
  }

  /// One step; the logits of every slice that has a sampler.
  std::vector<std::vector<float>> run(std::span<const step_slice> slices,
                                      gpu::step_class kind = gpu::step_class::prefill) {
    device_->begin_step(kind);
    layers_seen_.clear();
    transformer_->compute(slices, [this](std::uint32_t layer) { layers_seen_.push_back(layer); });
    std::vector<std::vector<float>> out;
    const std::size_t wanted = transformer_->wanted().size();
    for (std::size_t first = 0; first < wanted; first += transformer::logit_rows) {
      const std::size_t count = std::min<std::size_t>(transformer::logit_rows, wanted - first);
      const std::span<float> logits = transformer_->logits(first, count);
      for (std::size_t row = 0; row < count; ++row) {
        const auto at = logits.begin() + std::ptrdiff_t(row * config_.vocabulary_size);
        out.emplace_back(at, at + config_.vocabulary_size);
      }
    }
    device_->end_step();
    return out;
  }

  [[nodiscard]] const std::vector<std::uint32_t>& layers_seen() const { return layers_seen_; }
  [[nodiscard]] std::byte* pool() { return pool_.get(); }
  [[nodiscard]] const kvcache::segment_layout& layout() const { return layout_; }
  [[nodiscard]] const model_config& config() const { return config_; }

  /// A sampler that is never asked: it marks a slice's logits as wanted.
  [[nodiscard]] std::vector<std::shared_ptr<sampler>> wanted() const {
    return {std::make_shared<sampler>(core::sampling_params{}, std::span<const core::token_id>(), 0,
                                      std::span<const core::token_id>(), config_.vocabulary_size)};
  }

 private:
  struct free_memory {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  model_config config_;
  kvcache::segment_layout layout_;
  std::unique_ptr<gpu::device> device_;
  std::unique_ptr<std::byte, free_memory> pool_;
  std::vector<core::block_index> free_;
  std::unique_ptr<transformer> transformer_;
  std::vector<std::uint32_t> layers_seen_;
};

inline std::vector<core::token_id> random_tokens(core::random_source& random, std::size_t count,
                                                 std::uint32_t vocabulary) {
  std::vector<core::token_id> out(count);
  for (core::token_id& token : out) token = static_cast<core::token_id>(random.below(vocabulary));
  return out;
}

}  // namespace yolk::model::testing
