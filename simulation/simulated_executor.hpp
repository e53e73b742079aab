#pragma once

#include <functional>
#include <memory>

#include "model/step_executor.hpp"
#include "scheduling/latency_model.hpp"
#include "simulation/event_queue.hpp"
#include "simulation/virtual_clock.hpp"

namespace yolk::simulation {

/// One step of a simulated device, told when it begins.
struct device_step {
  gpu::step_class kind = gpu::step_class::decode;
  core::time_point begin{};
  core::duration elapsed{};
  std::uint32_t sequences = 0;
  std::uint32_t tokens = 0;
};

struct simulated_executor_options {
  event_queue& events;
  const virtual_clock& clock;
  scheduling::latency_model latency;
  std::function<void(const device_step&)> on_step;  ///< may be null
};

/// Answers a step after the time that the latency model gives it. A prefill step takes the sum of its chunks,
/// each by its positions; the model's constant and its cost of cached tokens count in the step in which a
/// prompt begins, the constant once a step. Tokens are a function of the sequence's newest token and
/// position.
std::unique_ptr<model::step_executor> make_simulated_executor(simulated_executor_options options);

}  // namespace yolk::simulation
