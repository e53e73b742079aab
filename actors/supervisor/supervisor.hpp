#pragma once

#include <caf/actor_system.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <memory>
#include <string>

#include "actors/supervisor/worker_factory.hpp"

namespace yolk::actors {

/// find(kind, id): the actor that plays that part now, for tests and tools. stop: ends all children, then
/// itself; sent again, without waiting for what runs.
using find_atom = caf::atom_constant<caf::atom("find")>;
using stop_atom = caf::atom_constant<caf::atom("stop")>;

using progress_atom = caf::atom_constant<caf::atom("progress")>;

/// joining: no head has taken it in yet, or its head is gone and it runs on. refused: it cannot be of this
/// cluster.
enum class node_state : std::uint8_t { joining, running, refused };
struct node_progress {
  node_state state = node_state::joining;
  std::uint16_t port = 0;  ///< of the gateway; 0: it has none
  std::string text;        ///< why it is refused, or what joining waits for
};

using supervisor_actor = messages::node_door_actor::extend<
    caf::reacts_to<messages::cluster_peers, messages::conductor_actor, messages::admission_controller_actor>,
    caf::reacts_to<messages::health_report>,
    caf::replies_to<find_atom, std::uint16_t, std::uint32_t>::with<caf::strong_actor_ptr>,
    caf::replies_to<progress_atom>::with<node_progress>, caf::reacts_to<stop_atom>>;

struct running_node {
  supervisor_actor supervisor;
  std::uint16_t port = 0;          ///< of the gateway; 0 where it has none, or is still joining
  node_address door;               ///< where other nodes find it, if it listens
  std::uint16_t metrics_port = 0;  ///< of --metrics; 0 where it has none
};

/// Starts all actors of a node; one that joins a cluster starts them when the head has taken it in, after
/// this returned. The supervisor watches them, restarts what dies with a new incarnation and
/// introduces it to the others, asks everyone how they are and tells the gateway. It runs on a thread of its
/// own, since it makes pools and devices.
node_result<running_node> start_node(caf::actor_system& system,
                                     std::shared_ptr<const worker_factory> factory);

}  // namespace yolk::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(yolk::actors::node_progress)
