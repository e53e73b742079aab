#pragma once

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <memory>

#include "actors/http_gateway/cluster_answer.hpp"
#include "actors/http_gateway/routes.hpp"
#include "actors/http_gateway/session_context.hpp"
#include "messages/interfaces.hpp"

namespace yolk::actors {

using plain_session_actor =
    caf::typed_actor<caf::reacts_to<messages::http_request>, caf::reacts_to<messages::http_gone>>;

struct plain_session_origin {
  route where = route::metrics;
  http_output_sink broker;
  health_window health;
};

/// Answers one request that needs no worker but more time than the broker has: tokenizer endpoints, metrics,
/// the picture of the cluster. Spawned by the broker, ends with its answer.
plain_session_actor spawn_plain_session(caf::actor_system& system,
                                        std::shared_ptr<const session_context> context,
                                        plain_session_origin origin);

}  // namespace yolk::actors
