#pragma once

#include <string>

#include "actors/http_gateway/session_context.hpp"
#include "core/clock.hpp"
#include "messages/interfaces.hpp"

namespace yolk::actors {

/// Two of the supervisor's reports, some seconds apart: what grew between them gives rates. Either may be
/// none.
struct health_window {
  messages::health_report oldest;
  messages::health_report newest;
  core::duration between{};
};

/// The JSON of GET /cluster.
std::string cluster_answer(const session_context& context, const health_window& health);

}  // namespace yolk::actors
