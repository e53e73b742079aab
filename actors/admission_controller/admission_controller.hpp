#pragma once

#include <caf/actor_system.hpp>
#include <memory>

#include "actors/metrics.hpp"
#include "core/clock.hpp"
#include "core/ids.hpp"
#include "messages/interfaces.hpp"
#include "scheduling/admission.hpp"

namespace yolk::actors {

struct admission_environment {
  core::incarnation incarnation;
  std::shared_ptr<metrics> recorder;
  std::shared_ptr<const core::clock> clock;
};

/// Lets requests in, makes them wait, or refuses them before anything was spent on them (429).
messages::admission_controller_actor spawn_admission_controller(caf::actor_system& system,
                                                                const scheduling::admission_limits& limits,
                                                                admission_environment environment);

}  // namespace yolk::actors
