#include "model/step_executor.hpp"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/invariant.hpp"
#include "model/transformer.hpp"

namespace yolk::model {

namespace {

struct open_step {
  step work;
  step_executor::layer_callback on_layer;
  step_executor::done_callback on_done;
};

/// What the thread works with. Shared with the executor, so that an executor that is destroyed by its own
/// last callback leaves the thread something to end with.
class driver {
 public:
  explicit driver(transformer_executor_options options)
      : options_(std::move(options)),
        transformer_({.config = options_.model->config,
                      .weights = options_.model->weights,
                      .layout = options_.layout,
                      .kv_pool = options_.kv_pool,
                      .max_rows = options_.max_rows},
                     *options_.device) {}

  void submit(open_step next) {
    const std::lock_guard lock(mutex_);
    YOLK_INVARIANT(!busy_, options_.thread_name);
    busy_ = true;
    next_ = std::move(next);
    wake_.notify_one();
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }

  /// The thread: sleeps until there is a step; a step that was submitted before stop() is still run.
  void run() {
    while (auto taken = take()) {
      step_result done = compute(*taken);
      {
        // The step is over before on_done runs, so that on_done may lead to the next submit at once.
        const std::lock_guard lock(mutex_);
        busy_ = false;
      }
      if (taken->on_done) taken->on_done(std::move(done));
    }
  }

 private:
  std::optional<open_step> take() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return next_ || stopping_; });
    return std::exchange(next_, std::nullopt);
  }

  step_result compute(open_step& taken) {
    const core::steady_clock clock;
    const core::time_point begin = clock.now();
    const std::vector<step_slice>& slices = taken.work.slices;
    step_result done;
    done.samples.resize(slices.size());
    gpu::device& device = *options_.device;
    device.begin_step(taken.work.kind);
    transformer_.compute(slices, taken.on_layer);
    const std::span<const std::uint32_t> wanted = transformer_.wanted();
    for (std::size_t first = 0; first < wanted.size(); first += transformer::logit_rows) {
      const std::size_t count = std::min<std::size_t>(transformer::logit_rows, wanted.size() - first);
      const std::span<float> logits = transformer_.logits(first, count);
      // Other devices need not wait for the choice of the last tokens.
      if (first + count == wanted.size()) device.end_step();
      for (std::size_t row = 0; row < count; ++row) {
        const std::uint32_t slice = wanted[first + row];
        sample(slices[slice].samplers, logits.subspan(row * logits.size() / count, logits.size() / count),
               done.samples[slice]);
      }
    }
    if (wanted.empty()) device.end_step();
    done.elapsed = clock.now() - begin;
    return done;
  }

  /// A sampler may overwrite what it chooses from: all but the last one get a copy.
  void sample(const std::vector<std::shared_ptr<sampler>>& samplers, std::span<float> logits,
              std::vector<core::sampled_token>& out) {
    // Weights that are not finite, or numbers that overflowed. As a rule the first logit ends the search.
    if (std::none_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); })) return;
    for (std::size_t i = 0; i < samplers.size(); ++i) {
      if (i + 1 == samplers.size()) {
        out.push_back(samplers[i]->sample(logits));
        continue;
      }
      copy_.assign(logits.begin(), logits.end());
      out.push_back(samplers[i]->sample(copy_));
    }
  }

  transformer_executor_options options_;
  transformer transformer_;
  std::vector<float> copy_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<open_step> next_;
  bool busy_ = false;  ///< from submit until just before on_done
  bool stopping_ = false;
};

/// Owned by a worker; submit() is called by one thread at a time, callbacks run on the executor's own thread.
class transformer_executor final : public step_executor {
 public:
  explicit transformer_executor(transformer_executor_options options) {
    std::string name = options.thread_name.substr(0, 15);  // the kernel's limit
    driver_ = std::make_shared<driver>(std::move(options));
    thread_ = std::thread([shared = driver_, name = std::move(name)] {
      ::pthread_setname_np(::pthread_self(), name.c_str());
      shared->run();
    });
  }

  ~transformer_executor() override {
    driver_->stop();
    // A callback may hold the last reference to its worker; the thread then ends on its own, after that
    // callback.
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  void submit(step work, layer_callback on_layer, done_callback on_done) override {
    driver_->submit({std::move(work), std::move(on_layer), std::move(on_done)});
  }

 private:
  std::shared_ptr<driver> driver_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<step_executor> make_transformer_executor(transformer_executor_options options) {
  YOLK_INVARIANT(options.model != nullptr && options.device != nullptr);
  return std::make_unique<transformer_executor>(std::move(options));
}

}  // namespace yolk::model
