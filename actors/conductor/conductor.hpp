#pragma once

#include <caf/actor_system.hpp>
#include <memory>
#include <string>

#include "actors/metrics.hpp"
#include "core/clock.hpp"
#include "core/ids.hpp"
#include "messages/interfaces.hpp"
#include "scheduling/latency_model.hpp"
#include "scheduling/placement.hpp"
#include "scheduling/slo.hpp"
#include "scheduling/slo_admission.hpp"

namespace yolk::actors {

struct conductor_options {
  std::uint32_t block_tokens = 16;
  std::uint32_t max_waiting = 4096;                    ///< legs without a worker to go to
  core::duration max_wait = std::chrono::seconds(10);  ///< for a worker to come (back)
  core::duration snapshot_timeout = std::chrono::seconds(5);
  std::string placement{scheduling::default_placement_policy};  ///< a name of placement_policy_names()
  scheduling::placement_options placement_options;
  std::string admission{scheduling::default_admission_rule};  ///< a name of admission_rule_names()
  scheduling::slo_class slo;                                  ///< what the rule holds every request to
  scheduling::latency_coefficients latency = scheduling::unprofiled(1.0);  ///< corrected by what is observed
  scheduling::correction_limits correction{.weight = 0.2, .largest = 1e4, .outlier = 1e4};
};

struct conductor_environment {
  core::incarnation incarnation;
  std::shared_ptr<metrics> recorder;
  std::shared_ptr<const core::clock> clock;
};

/// Decides where every leg runs, from its soft view of who holds which blocks and who is how busy; tells
/// sessions when a worker of theirs is gone. Tokens and KV never pass through it.
messages::conductor_actor spawn_conductor(caf::actor_system& system, const conductor_options& options,
                                          conductor_environment environment);

}  // namespace yolk::actors
