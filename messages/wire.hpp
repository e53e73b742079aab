#pragma once

#include <caf/actor_system_config.hpp>

namespace yolk::messages {

/// Version of the messages between nodes. Nodes of different versions do not form a cluster.
inline constexpr std::uint32_t protocol_version = 2;

/// Gives every message and handle that goes from node to node the name under which it travels.
void add_wire_types(caf::actor_system_config& config);

}  // namespace yolk::messages
