#include "simulation/simulated_executor.hpp"

#include <cmath>
#include <unordered_map>
#include <utility>

#include "core/invariant.hpp"

namespace yolk::simulation {

namespace {

/// Above the ids that traces' tokens are made of, so that what is generated is no prompt's prefix by chance.
constexpr core::token_id first_generated = 0xc0000000u;

core::token_id token_after(const model::step_slice& slice, std::uint32_t choice) {
  const std::uint64_t position = slice.first_position + slice.tokens.size();
  std::uint64_t mixed =
      (std::uint64_t{slice.tokens.back()} << 32 | (position + choice)) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 29;
  return first_generated | static_cast<core::token_id>(mixed & 0x3fffffffu);
}

class simulated_executor final : public model::step_executor {
 public:
  explicit simulated_executor(simulated_executor_options options) : options_(std::move(options)) {}

  void submit(model::step work, layer_callback on_layer, done_callback on_done) override {
    YOLK_INVARIANT(!busy_);
    busy_ = true;
    const double seconds =
        work.kind == gpu::step_class::prefill ? prefill_seconds(work) : decode_seconds(work);
    const core::duration elapsed(static_cast<core::duration::rep>(std::llround(seconds * 1e9)));
    const auto begin = options_.clock.now();
    if (options_.on_step) {
      std::uint32_t tokens = 0;
      for (const auto& slice : work.slices) tokens += static_cast<std::uint32_t>(slice.tokens.size());
      options_.on_step({work.kind, begin, elapsed, static_cast<std::uint32_t>(work.slices.size()), tokens});
    }
    auto result = std::make_shared<model::step_result>(sample(work));
    result->elapsed = elapsed;
    options_.events.at(begin + elapsed, [this, alive = std::weak_ptr(alive_), result,
                                         on_layer = std::move(on_layer), on_done = std::move(on_done)] {
      if (alive.expired()) return;
      busy_ = false;
      if (on_layer) on_layer(0);
      on_done(std::move(*result));
    });
  }

 private:
  [[nodiscard]] double decode_seconds(const model::step& work) const {
    scheduling::decode_shape shape{.sequences = static_cast<std::uint32_t>(work.slices.size())};
    for (const auto& slice : work.slices) shape.context_tokens += slice.first_position + slice.tokens.size();
    return options_.latency.decode_seconds(shape);
  }

  [[nodiscard]] double prefill_seconds(const model::step& work) {
    const auto& cost = options_.latency.coefficients().prefill;
    double seconds = 0.0;
    bool begins = false;
    for (const auto& slice : work.slices) {
      const double first = slice.first_position;
      const double end = first + static_cast<double>(slice.tokens.size());
      seconds += cost.per_token * (end - first) + cost.per_token_squared * (end * end - first * first);
      if (!goes_on(slice)) {
        begins = true;
        seconds += cost.per_cached_token * first;
      }
    }
    return seconds + (begins ? cost.base_seconds : 0.0);
  }

  /// Whether the slice continues a prompt of an earlier step: by its last block, which is no other
  /// sequence's.
  [[nodiscard]] bool goes_on(const model::step_slice& slice) {
    const auto end = slice.first_position + static_cast<std::uint32_t>(slice.tokens.size());
    auto& expected = next_position_[slice.blocks.back()];
    const bool continues = expected == slice.first_position && expected != 0;
    expected = slice.samplers.empty() ? end : 0;
    return continues;
  }

  [[nodiscard]] static model::step_result sample(const model::step& work) {
    model::step_result result;
    result.samples.resize(work.slices.size());
    for (std::size_t i = 0; i < work.slices.size(); ++i) {
      const auto& slice = work.slices[i];
      for (std::uint32_t choice = 0; choice < slice.samplers.size(); ++choice) {
        const auto token = token_after(slice, choice);
        slice.samplers[choice]->accept(token);
        result.samples[i].push_back({.token = token});
      }
    }
    return result;
  }

  simulated_executor_options options_;
  std::unordered_map<core::block_index, std::uint32_t> next_position_;  ///< by the last block
  bool busy_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace

std::unique_ptr<model::step_executor> make_simulated_executor(simulated_executor_options options) {
  return std::make_unique<simulated_executor>(std::move(options));
}

}  // namespace yolk::simulation
