#include "simulation/simulated_executor.hpp"

#include <doctest/doctest.h>

using namespace yolk;
using namespace yolk::simulation;

namespace {

struct world {
  /// Runs one step; its virtual time.
  double run(model::step work) {
    double seconds = -1;
    executor->submit(
        std::move(work), [this](std::uint32_t) { ++layers; },
        [&](const model::step_result& result) {
          last = result;
          seconds = std::chrono::duration<double>(result.elapsed).count();
        });
    CHECK(seconds == -1);
    const auto begin = clock.now();
    clock.set(*events.next());
    events.run_first();
    CHECK(std::chrono::duration<double>(clock.now() - begin).count() == seconds);
    return seconds;
  }

  event_queue events;
  virtual_clock clock{core::time_point{}};
  scheduling::latency_model latency{scheduling::a800_llama3_70b()};
  std::vector<device_step> steps;
  int layers = 0;
  model::step_result last;
  std::unique_ptr<model::step_executor> executor = make_simulated_executor(
      {events, clock, latency, [this](const device_step& step) { steps.push_back(step); }});
};

std::shared_ptr<model::sampler> some_sampler() {
  return std::make_shared<model::sampler>(core::sampling_params{}, std::vector<core::token_id>{1}, 1,
                                          std::vector<core::token_id>{}, 1);
}

model::step_slice slice(std::uint32_t first, std::uint32_t count, core::block_index block, bool ends) {
  model::step_slice made;
  made.tokens.resize(count, 7);
  made.first_position = first;
  made.blocks = {block};
  if (ends) made.samplers = {some_sampler()};
  return made;
}

model::step prefill(std::vector<model::step_slice> slices) {
  return {.kind = gpu::step_class::prefill, .slices = std::move(slices)};
}

}  // namespace

TEST_CASE("a prompt takes the same time in one step and in chunks, also after a cached prefix") {
  for (const std::uint32_t cached : {0u, 1024u}) {
    CAPTURE(cached);
    world whole, chunked;
    const double expected = whole.latency.prefill_seconds({.prompt_tokens = 8192, .cached_tokens = cached});
    CHECK(whole.run(prefill({slice(cached, 8192 - cached, 3, true)})) == doctest::Approx(expected));
    double sum = 0;
    for (std::uint32_t first = cached; first < 8192; first += 1024)
      sum += chunked.run(prefill({slice(first, 1024, 3, first + 1024 == 8192)}));
    CHECK(sum == doctest::Approx(expected));
    CHECK(chunked.steps.size() == (8192 - cached) / 1024);
  }
}

TEST_CASE("prompts that begin in one step share its constant, and a block used again is another prompt") {
  world w;
  const double alone = w.run(prefill({slice(0, 100, 1, true)}));
  const double together = w.run(prefill({slice(0, 100, 1, true), slice(0, 100, 2, true)}));
  const double base = w.latency.coefficients().prefill.base_seconds;
  CHECK(together == doctest::Approx(2 * alone - base));
  CHECK(w.run(prefill({slice(0, 100, 1, true)})) == doctest::Approx(alone));
  CHECK(w.layers == 3);
}

TEST_CASE(
    "a decode step takes the time of its batch and context, and its tokens are a function of the sequence") {
  world w;
  model::step work{.kind = gpu::step_class::decode,
                   .slices = {slice(999, 1, 1, true), slice(499, 1, 2, true)}};
  CHECK(w.run(work) == doctest::Approx(w.latency.decode_seconds({.sequences = 2, .context_tokens = 1500})));
  const auto first = w.last.samples[0][0].token;
  CHECK(first != w.last.samples[1][0].token);
  CHECK(w.steps.back().sequences == 2);
  work.slices.pop_back();
  w.run(work);
  CHECK(w.last.samples[0][0].token == first);
}
