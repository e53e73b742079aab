#pragma once

#include <caf/actor_system.hpp>
#include <cstdint>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "kvcache/block_key.hpp"
#include "messages/interfaces.hpp"
#include "simulation/measurements.hpp"
#include "simulation/trace.hpp"

namespace yolk::simulation {

/// What the sessions of one simulation share; outlives them.
struct session_context {
  messages::admission_controller_actor admission;
  messages::conductor_actor conductor;
  core::incarnation incarnation;
  kvcache::block_key root;
  const core::clock& clock;
  measurements& results;
  std::uint64_t last_leg = 0;
  std::uint64_t open_count = 0;  ///< sessions that have not ended
  std::uint32_t max_faults = 8;  ///< legs of a request that may be lost
};

/// One request of a trace, as the gateway's session would work for it: submits it to the admission
/// controller, takes its tokens, tries again what a fault or a preemption broke off, and ends its legs.
void begin_session(caf::actor_system& system, session_context& context, const trace_request& request);

}  // namespace yolk::simulation
