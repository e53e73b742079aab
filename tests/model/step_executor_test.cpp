#include "model/step_executor.hpp"

#include <doctest/doctest.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/model/paged_runner.hpp"
#include "tests/model/reference_platform.hpp"

using namespace yolk;
using namespace yolk::model;
using namespace yolk::model::testing;

namespace {

/// An executor over a small random model, and what one needs to wait for it.
struct executor_fixture {
  reference_platform platform;
  std::shared_ptr<loaded_model> model = std::make_shared<loaded_model>();
  std::vector<std::byte> pool;
  std::unique_ptr<step_executor> executor;

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<step_result> done;

  explicit executor_fixture(std::uint32_t layers = 2)
      : executor_fixture(make_random_model({.layers = layers}, 3)) {}

  explicit executor_fixture(const random_model& files) {
    const auto loaded = load_random_model(files, platform);
    REQUIRE(loaded.has_value());
    model->config = loaded->config;
    model->weights = loaded->weights;
    const kvcache::segment_layout layout = model->config.kv_layout(16);
    pool.resize(layout.block_bytes() * 8);
    executor = make_transformer_executor({.model = model,
                                          .device = std::move(*platform.create_device()),
                                          .layout = layout,
                                          .kv_pool = pool.data(),
                                          .max_rows = 64,
                                          .thread_name = "yolk-test-executor"});
  }

  step_executor::done_callback keep_result() {
    return [this](step_result result) {
      const std::lock_guard lock(mutex);
      done = std::move(result);
      changed.notify_all();
    };
  }

  step_result wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return done.has_value(); });
    return *std::exchange(done, std::nullopt);
  }

  step_result run(step work) {
    executor->submit(std::move(work), {}, keep_result());
    return wait();
  }

  [[nodiscard]] std::shared_ptr<sampler> new_sampler(core::sampling_params params,
                                                     const std::vector<core::token_id>& prompt) const {
    return std::make_shared<sampler>(params, prompt, prompt.size(), std::vector<core::token_id>{},
                                     model->config.vocabulary_size);
  }
};

core::sampling_params greedy() {
  core::sampling_params params;
  params.temperature = 0;
  return params;
}

}  // namespace

TEST_CASE("a step's samples come back slice by slice, and a slice without a sampler has none") {
  executor_fixture fixture;
  const std::vector<core::token_id> prompt = {5, 6, 7};
  step work;
  work.slices.push_back(
      {.tokens = prompt, .blocks = {0}, .samplers = {fixture.new_sampler(greedy(), prompt)}});
  work.slices.push_back({.tokens = {1, 2}, .blocks = {1}});
  work.slices.push_back(
      {.tokens = prompt, .blocks = {2}, .samplers = {fixture.new_sampler(greedy(), prompt)}});
  const step_result result = fixture.run(std::move(work));
  REQUIRE(result.samples.size() == 3);
  REQUIRE(result.samples[0].size() == 1);
  CHECK(result.samples[1].empty());
  REQUIRE(result.samples[2].size() == 1);
  CHECK(result.samples[0][0].token == result.samples[2][0].token);
  CHECK(result.elapsed.count() > 0);
}

TEST_CASE("where no logit is finite there are no samples, whichever number the weights have instead") {
  for (const std::string_view number : {"\xff\xff", "\x80\x7f", "\x80\xff"}) {  // NaN, +inf, -inf in BF16
    auto files = make_random_model({.layers = 1}, 3);
    auto& bytes = files.tensors.at("model.norm.weight").bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = number[i % 2];
    executor_fixture fixture(files);
    const std::vector<core::token_id> prompt = {5, 6, 7};
    const auto result = fixture.run(
        {.slices = {{.tokens = prompt, .blocks = {0}, .samplers = {fixture.new_sampler(greedy(), prompt)}}}});
    REQUIRE(result.samples.size() == 1);
    CHECK(result.samples[0].empty());
  }
}

TEST_CASE("several samplers of one slice choose from the same logits, each in its own way") {
  executor_fixture fixture;
  const std::vector<core::token_id> prompt = {9, 8};
  core::sampling_params banned = greedy();
  const auto first = fixture.run(
      {.slices = {{.tokens = prompt, .blocks = {0}, .samplers = {fixture.new_sampler(greedy(), prompt)}}}});
  const core::token_id best = first.samples[0][0].token;
  banned.logit_bias = {{best, -100.0f}};
  step work;
  work.slices.push_back(
      {.tokens = prompt,
       .blocks = {0},
       .samplers = {fixture.new_sampler(banned, prompt), fixture.new_sampler(greedy(), prompt),
                    fixture.new_sampler(banned, prompt)}});
  const step_result result = fixture.run(std::move(work));
  REQUIRE(result.samples[0].size() == 3);
  CHECK(result.samples[0][0].token != best);
  CHECK(result.samples[0][1].token == best);
  CHECK(result.samples[0][2].token == result.samples[0][0].token);
}

TEST_CASE("layers are announced in order on the executor's thread before the step is done") {
  executor_fixture fixture(4);
  std::vector<std::uint32_t> layers;
  std::thread::id layer_thread;
  std::size_t layers_at_done = 0;
  std::thread::id done_thread;
  step work;
  work.slices.push_back({.tokens = {1, 2, 3}, .blocks = {0}});
  const auto keep = fixture.keep_result();
  fixture.executor->submit(
      std::move(work),
      [&](std::uint32_t layer) {
        layers.push_back(layer);
        layer_thread = std::this_thread::get_id();
      },
      [&](step_result result) {
        layers_at_done = layers.size();
        done_thread = std::this_thread::get_id();
        keep(std::move(result));
      });
  fixture.wait();
  CHECK(layers == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(layers_at_done == 4);
  CHECK(layer_thread == done_thread);
  CHECK(layer_thread != std::this_thread::get_id());
}

TEST_CASE("a layer's KV lies in the blocks when the layer is announced") {
  executor_fixture fixture(3);
  const kvcache::segment_layout layout = fixture.model->config.kv_layout(16);
  std::vector<bool> written;
  step work;
  work.slices.push_back({.tokens = {4}, .blocks = {5}});
  fixture.executor->submit(
      std::move(work),
      [&](std::uint32_t layer) {
        const std::byte* block = fixture.pool.data() + 5 * layout.block_bytes();
        const auto nonzero = [&](std::size_t begin, std::size_t size) {
          return std::any_of(block + begin, block + begin + size,
                             [](std::byte b) { return b != std::byte{0}; });
        };
        bool all = true;
        for (std::uint32_t head = 0; head < layout.kv_head_count; ++head)
          for (const auto part : {kvcache::kv_part::key, kvcache::kv_part::value})
            all = all && nonzero(layout.segment_offset(layer, head, part), layout.segment_bytes());
        const bool later = layer + 1 < 3 && nonzero(layout.layer_offset(layer + 1), layout.layer_bytes());
        written.push_back(all && !later);
      },
      fixture.keep_result());
  fixture.wait();
  CHECK(written == std::vector<bool>{true, true, true});
}

TEST_CASE("a generation step by step equals the model's own greedy continuation") {
  executor_fixture fixture;
  std::vector<core::token_id> tokens = {3, 1, 4, 1, 5};
  const auto stepped = fixture.new_sampler(greedy(), tokens);
  std::vector<core::token_id> next = tokens;
  std::uint32_t position = 0;
  std::vector<core::token_id> generated;
  for (int i = 0; i < 20; ++i) {
    step work{
        .slices = {{.tokens = next, .first_position = position, .blocks = {0, 1}, .samplers = {stepped}}}};
    position += static_cast<std::uint32_t>(next.size());
    next = {fixture.run(std::move(work)).samples[0][0].token};
    generated.push_back(next[0]);
  }
  for (std::size_t i = 0; i < generated.size(); ++i) {
    const auto result = fixture.run(
        {.slices = {
             {.tokens = tokens, .blocks = {2, 3}, .samplers = {fixture.new_sampler(greedy(), tokens)}}}});
    CHECK(result.samples[0][0].token == generated[i]);
    tokens.push_back(generated[i]);
  }
}

TEST_CASE("the next step may be submitted from the callback that ends one") {
  executor_fixture fixture;
  const auto keep = fixture.keep_result();
  int left = 5;
  std::function<void(step_result)> again = [&](step_result result) {
    if (--left == 0) return keep(std::move(result));
    fixture.executor->submit({.slices = {{.tokens = {2}, .blocks = {0}}}}, {}, again);
  };
  fixture.executor->submit({.slices = {{.tokens = {2}, .blocks = {0}}}}, {}, again);
  fixture.wait();
  CHECK(left == 0);
}

TEST_CASE("destroying the executor finishes the open step first") {
  executor_fixture fixture;
  bool finished = false;
  fixture.executor->submit({.slices = {{.tokens = {1, 2, 3, 4}, .blocks = {0}}}}, {},
                           [&](step_result) { finished = true; });
  fixture.executor.reset();
  CHECK(finished);
}

TEST_CASE("a callback may drop the last reference to the executor itself") {
  executor_fixture fixture;
  fixture.executor->submit({.slices = {{.tokens = {1}, .blocks = {0}}}}, {},
                           [&, keep = fixture.keep_result()](step_result result) {
                             fixture.executor.reset();
                             keep(std::move(result));
                           });
  fixture.wait();
  CHECK(fixture.executor == nullptr);
}

TEST_CASE("an empty step is done at once") {
  executor_fixture fixture;
  CHECK(fixture.run({}).samples.empty());
}
