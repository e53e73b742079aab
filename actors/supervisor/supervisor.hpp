#pragma once

#include <caf/actor_system.hpp>
#include <memory>

#include "actors/supervisor/worker_factory.hpp"

namespace yolk::actors {

/// find(kind, id): the actor that plays that part now, for tests and tools. stop: ends all children, then
/// itself; sent again, without waiting for what runs.
using find_atom = caf::atom_constant<caf::atom("find")>;
using stop_atom = caf::atom_constant<caf::atom("stop")>;

using supervisor_actor =
    caf::typed_actor<caf::replies_to<messages::status_request>::with<messages::health_report>,
                     caf::replies_to<find_atom, std::uint16_t, std::uint32_t>::with<caf::strong_actor_ptr>,
                     caf::reacts_to<stop_atom>>;

struct running_node {
  supervisor_actor supervisor;
  std::uint16_t port = 0;  ///< of the gateway
};

/// Starts all actors of a node. The supervisor watches them, restarts what dies with a new incarnation and
/// introduces it to the others, asks everyone how they are and tells the gateway. It runs on a thread of its
/// own, since it makes pools and devices.
node_result<running_node> start_node(caf::actor_system& system,
                                     std::shared_ptr<const worker_factory> factory);

}  // namespace yolk::actors
