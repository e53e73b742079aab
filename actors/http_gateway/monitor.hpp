#pragma once

#include <caf/actor_system.hpp>
#include <cstdint>
#include <string>

#include "actors/http_gateway/http_gateway.hpp"

namespace yolk::actors {

struct monitor_options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;              ///< 0 = any free one
  std::uint32_t max_connections = 64;  ///< of those who watch
};

/// A gateway for those who watch a node: /metrics, /health and /version alone, and no API key asked for. It
/// understands the supervisor's health_report, as the gateway does.
core::result<started_gateway, gateway_errc> start_monitor(caf::actor_system& system,
                                                          const monitor_options& options,
                                                          gateway_environment environment);

}  // namespace yolk::actors
