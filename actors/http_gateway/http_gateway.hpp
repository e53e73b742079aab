#pragma once

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/atom.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "actors/metrics.hpp"
#include "core/clock.hpp"
#include "core/ids.hpp"
#include "core/result.hpp"
#include "model/loaded_model.hpp"

namespace yolk::actors {

enum class gateway_errc { cannot_listen };

struct gateway_options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;                    ///< 0 = any free one (tests)
  std::map<std::string, std::string> api_keys;  ///< key -> tenant; empty = no key is asked for
  std::uint32_t max_connections = 4096;
  std::uint32_t max_requests_per_connection_queue = 16;  ///< pipelined requests that wait for their turn
  std::uint64_t max_output_bytes = 4 << 20;  ///< unsent bytes of one slow client before it is dropped
  std::chrono::seconds read_timeout{60};     ///< for a request that has begun; idle keep-alive is 5 minutes
  std::uint32_t max_attempts = 5;        ///< re-placements of a leg after faults (preemptions do not count)
  std::uint32_t max_context_tokens = 0;  ///< 0 = the model's; less where the block pools are smaller
  std::uint32_t block_tokens = 16;
  std::uint32_t max_prompts_at_once = 0;  ///< that admission holds, in work and waiting; 0 = not known
  std::uint32_t node_number = 0;          ///< in its cluster; below 1024
  std::uint64_t max_input_bytes = std::uint64_t{1}
                                  << 30;  ///< of requests that are read or answered, all together
  std::uint64_t max_unsent_bytes = std::uint64_t{1} << 30;  ///< of answers, to all clients together
  std::string cors_origin;  ///< "*" or one origin that browsers may call from; empty = none
  std::uint64_t random_seed =
      0;  ///< where seeds of requests without one are drawn from; 0 = the system's source
  std::string device = "host";  ///< the workers', to show: a kind, and more about it behind a colon
  std::string numerics;         ///< gpu::platform::numerics(), part of the root of block keys
};

/// To the broker, answered when done: takes no more connections, answers what it has, closes. For an orderly
/// end.
using gateway_drain_atom = caf::atom_constant<caf::atom("drain")>;
/// To the broker, answered when done: as "drain", but what still runs ends now, with an error that says so.
using gateway_shutdown_atom = caf::atom_constant<caf::atom("shutdown")>;

struct gateway_environment {
  std::shared_ptr<const model::loaded_model> model;
  std::shared_ptr<metrics> recorder;
  std::shared_ptr<const core::clock> clock;
  core::incarnation incarnation;
};

/// "http://127.0.0.1:8000": what reaches, from this machine, a gateway that listens on `host`; for one that
/// listens on all interfaces the loopback's address.
std::string local_url(const std::string& host, std::uint16_t port);

struct started_gateway {
  caf::actor broker;
  std::uint16_t port = 0;
};

/// Starts the broker that owns the sockets; each request gets a session actor of its own. Needs the actor
/// system's I/O module. See messages/interfaces.hpp for what it understands.
core::result<started_gateway, gateway_errc> start_http_gateway(caf::actor_system& system,
                                                               gateway_options options,
                                                               gateway_environment environment);

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
