// How fast the bare executor is: a model's steps over the host device, without tokenizer, actors or HTTP.
//   executor_bench MODEL [--chunk 512] [--prompts 512,2048] [--batches 1,4,8] [--context 512] [--steps 32]
//   [--threads 0] [--isa avx512]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "gpu/host/host_platform.hpp"
#include "model/config.hpp"
#include "model/safetensors.hpp"
#include "model/step_executor.hpp"
#include "model/transformer_weights.hpp"

namespace {

using namespace yolk;

struct bench_options {
  std::string folder;
  std::uint32_t chunk = 512;
  std::vector<std::uint32_t> prompts = {512, 2048};
  std::vector<std::uint32_t> batches = {1, 4, 8};
  std::uint32_t context = 512;
  std::uint32_t steps = 32;
  unsigned threads = 0;
  std::string isa;
};

double seconds(core::duration time) {
  return std::chrono::duration<double>(time).count();
}

/// Kilobytes, from the kernel's account of this process.
long memory_kib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::atol(line.c_str() + field.size() + 1);
  return 0;
}

struct free_memory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

/// One executor with a pool that holds every sequence of the bench, and a way to wait for its steps.
class bench {
 public:
  bench(bench_options options, std::shared_ptr<const model::loaded_model> model,
        std::unique_ptr<gpu::device> device)
      : options_(std::move(options)), model_(std::move(model)), random_(1) {
    const kvcache::segment_layout layout = model_->config.kv_layout(16);
    const std::uint32_t longest = *std::max_element(options_.prompts.begin(), options_.prompts.end());
    const std::uint32_t widest = *std::max_element(options_.batches.begin(), options_.batches.end());
    blocks_a_sequence_ = layout.blocks_for(std::max(longest, options_.context + options_.steps + 1));
    const std::size_t bytes = layout.block_bytes() * blocks_a_sequence_ * widest;
    pool_.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
    executor_ = model::make_transformer_executor({.model = model_,
                                                  .device = std::move(device),
                                                  .layout = layout,
                                                  .kv_pool = pool_.get(),
                                                  .max_rows = std::max(options_.chunk, widest),
                                                  .thread_name = "bench"});
  }

  void prefill(std::uint32_t prompt) {
    const double elapsed = fill(0, prompt);
    const double rate = prompt / elapsed;
    std::printf("prefill %5u tokens, chunks of %u: %8.1f tokens/s, %6.1f GFLOP/s in matrices\n", prompt,
                options_.chunk, rate, 2e-9 * double(matrix_parameters()) * rate);
  }

  void decode(std::uint32_t batch) {
    std::vector<std::shared_ptr<model::sampler>> samplers;
    for (std::uint32_t i = 0; i < batch; ++i) {
      fill(i, options_.context);
      samplers.push_back(greedy_sampler());
    }
    std::vector<double> gaps;
    std::vector<core::token_id> last(batch, 1);
    for (std::uint32_t step = 0; step < options_.steps; ++step) {
      model::step work{.kind = gpu::step_class::decode};
      for (std::uint32_t i = 0; i < batch; ++i)
        work.slices.push_back({.tokens = {last[i]},
                               .first_position = options_.context + step,
                               .blocks = blocks_of(i),
                               .samplers = {samplers[i]}});
      const model::step_result done = run(std::move(work));
      gaps.push_back(seconds(done.elapsed));
      for (std::uint32_t i = 0; i < batch; ++i) last[i] = done.samples[i][0].token;
    }
    double total = 0;
    for (const double gap : gaps) total += gap;
    std::sort(gaps.begin(), gaps.end());
    std::printf(
        "decode  batch %u at context %u: %8.1f tokens/s, step P50 %.2f ms, P99 %.2f ms, weights at %.1f "
        "GB/s\n",
        batch, options_.context, batch * options_.steps / total, 1e3 * gaps[gaps.size() / 2],
        1e3 * gaps[gaps.size() * 99 / 100], 2e-9 * double(matrix_parameters()) * options_.steps / total);
  }

 private:
  /// Computes a random prompt chunk by chunk; the last chunk's last token gets logits.
  double fill(std::uint32_t sequence, std::uint32_t prompt) {
    double elapsed = 0;
    for (std::uint32_t begin = 0; begin < prompt; begin += options_.chunk) {
      model::step_slice slice{.first_position = begin, .blocks = blocks_of(sequence)};
      for (std::uint32_t i = begin; i < std::min(prompt, begin + options_.chunk); ++i)
        slice.tokens.push_back(static_cast<core::token_id>(random_.below(model_->config.vocabulary_size)));
      if (begin + options_.chunk >= prompt) slice.samplers = {greedy_sampler()};
      model::step work{.kind = gpu::step_class::prefill};
      work.slices.push_back(std::move(slice));
      elapsed += seconds(run(std::move(work)).elapsed);
    }
    return elapsed;
  }

  [[nodiscard]] std::vector<core::block_index> blocks_of(std::uint32_t sequence) const {
    std::vector<core::block_index> blocks(blocks_a_sequence_);
    for (std::uint32_t i = 0; i < blocks.size(); ++i) blocks[i] = sequence * blocks_a_sequence_ + i;
    return blocks;
  }

  [[nodiscard]] std::shared_ptr<model::sampler> greedy_sampler() const {
    core::sampling_params params;
    params.temperature = 0;
    return std::make_shared<model::sampler>(params, std::span<const core::token_id>(), 0,
                                            std::span<const core::token_id>(),
                                            model_->config.vocabulary_size);
  }

  /// Those that every token is multiplied with: all but the embedding.
  [[nodiscard]] std::uint64_t matrix_parameters() const {
    return model_->parameter_count -
           std::uint64_t{model_->config.vocabulary_size} * model_->config.hidden_size;
  }

  model::step_result run(model::step work) {
    executor_->submit(std::move(work), {}, [this](model::step_result result) {
      const std::lock_guard lock(mutex_);
      done_ = std::move(result);
      changed_.notify_one();
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_.has_value(); });
    return *std::exchange(done_, std::nullopt);
  }

  bench_options options_;
  std::shared_ptr<const model::loaded_model> model_;
  core::random_source random_;
  std::uint32_t blocks_a_sequence_ = 0;
  std::unique_ptr<std::byte, free_memory> pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<model::step_result> done_;
  std::unique_ptr<model::step_executor> executor_;
};

int fail(const std::string& message) {
  std::fprintf(stderr, "executor_bench: %s\n", message.c_str());
  return 1;
}

int run(const bench_options& options) {
  std::optional<gpu::host::instruction_set> isa;
  if (options.isa == "plain") isa = gpu::host::instruction_set::plain;
  if (options.isa == "avx2") isa = gpu::host::instruction_set::avx2;
  if (options.isa == "avx512") isa = gpu::host::instruction_set::avx512;
  if (options.isa == "avx512_bf16") isa = gpu::host::instruction_set::avx512_bf16;
  auto platform = gpu::host::make_host_platform({.thread_count = options.threads, .force_isa = isa});
  if (!platform) return fail(platform.error().message);
  const core::steady_clock clock;
  const core::time_point begin = clock.now();
  auto config = model::load_config(options.folder);
  if (!config) return fail(config.error().message);
  auto tensors = model::tensor_set::open(options.folder);
  if (!tensors) return fail(tensors.error().message);
  auto weights = model::transformer_weights::load(*config, *tensors, **platform);
  if (!weights) return fail(weights.error().message);
  auto model = std::make_shared<model::loaded_model>();
  model->config = *config;
  model->weights = *weights;
  model->parameter_count = (*weights)->parameter_count;
  std::printf("%s; %.1f M parameters, %.1f MB packed, loaded in %.2f s, peak memory %.2f x weights\n",
              (*platform)->description().c_str(), 1e-6 * double(model->parameter_count),
              1e-6 * double((*weights)->memory_bytes), seconds(clock.now() - begin),
              1024.0 * double(memory_kib("VmHWM")) / double((*weights)->memory_bytes));
  auto device = (*platform)->create_device();
  if (!device) return fail(device.error().message);
  bench all(options, model, std::move(*device));
  for (const std::uint32_t prompt : options.prompts) all.prefill(prompt);
  for (const std::uint32_t batch : options.batches) all.decode(batch);
  std::printf("peak memory %.1f MB\n", 1e-6 * 1024.0 * double(memory_kib("VmHWM")));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bench_options options;
  CLI::App app("Tokens per second of the bare executor on the host device");
  app.add_option("model", options.folder, "a Hugging Face folder")->required();
  app.add_option("--chunk", options.chunk, "tokens of a prompt in one step");
  app.add_option("--prompts", options.prompts, "lengths of the prompts")->delimiter(',');
  app.add_option("--batches", options.batches, "sequences that decode together")->delimiter(',');
  app.add_option("--context", options.context, "tokens before the first that is decoded");
  app.add_option("--steps", options.steps, "decode steps");
  app.add_option("--threads", options.threads, "0 = all that the process may use");
  app.add_option("--isa", options.isa, "plain, avx2, avx512 or avx512_bf16; the best otherwise")
      ->check(CLI::IsMember({"plain", "avx2", "avx512", "avx512_bf16"}));
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
