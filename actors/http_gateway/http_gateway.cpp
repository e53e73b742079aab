#include "actors/http_gateway/http_gateway.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>

#include "actors/http_gateway/gateway_broker.hpp"
#include "actors/http_gateway/session_context.hpp"

namespace yolk::actors {

namespace {

constexpr int listen_backlog = 512;

using gateway_failure = core::failure<gateway_errc>;

/// "127.0.0.1:8000", "[::1]:8000".
std::string place_of(const std::string& host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

gateway_failure cannot_listen(const gateway_options& options, const std::string& why) {
  return {gateway_errc::cannot_listen,
          "cannot listen on " + place_of(options.host, options.port) + ": " + why};
}

struct listening {
  int socket = -1;
  std::uint16_t port = 0;
};

std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

/// errno of the step that failed, 0 when it listens.
int listen_on(const addrinfo& address, listening& out) {
  out.socket = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  if (out.socket < 0) return errno;
  const int on = 1;
  ::setsockopt(out.socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(out.socket, address.ai_addr, address.ai_addrlen) == 0 &&
      ::listen(out.socket, listen_backlog) == 0) {
    out.port = port_of(out.socket);
    return 0;
  }
  const int error = errno;
  ::close(out.socket);
  return error;
}

core::result<listening, gateway_errc> open_listener(const gateway_options& options) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(options.host.empty() ? nullptr : options.host.c_str(),
                                   std::to_string(options.port).c_str(), &hints, &found);
  if (status != 0) return cannot_listen(options, ::gai_strerror(status));
  listening out;
  int error = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    error = listen_on(*each, out);
    if (error == 0) break;
  }
  ::freeaddrinfo(found);
  if (error != 0) return cannot_listen(options, std::strerror(error));
  return out;
}

std::shared_ptr<const session_context> make_context(caf::actor_system& system, gateway_options options,
                                                    gateway_environment environment, std::uint16_t port) {
  auto context = std::make_shared<session_context>();
  const std::uint32_t model_context = environment.model->config.context_length;
  context->context_tokens =
      options.max_context_tokens == 0 ? model_context : std::min(options.max_context_tokens, model_context);
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  context->started_seconds = std::chrono::duration_cast<std::chrono::seconds>(wall).count();
  context->system_fingerprint = "yolk-" + environment.model->fingerprint.substr(0, 12);
  if (!options.cors_origin.empty())
    context->extra_headers.emplace_back("Access-Control-Allow-Origin", options.cors_origin);
  context->url = local_url(options.host, port);
  context->heavy_lane = spawn_heavy_lane(system);
  context->options = std::move(options);
  context->environment = std::move(environment);
  return context;
}

core::result<started_gateway, gateway_errc> start(caf::actor_system& system, gateway_options options,
                                                  gateway_environment environment, gateway_scope scope) {
  auto listener = open_listener(options);
  if (!listener) return listener.error();
  std::uint64_t seed = options.random_seed;
  if (seed == 0) seed = (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  auto context = make_context(system, std::move(options), std::move(environment), listener->port);
  caf::actor broker =
      system.middleman().spawn_broker(gateway_broker, listener->socket, std::move(context), seed, scope);
  return started_gateway{std::move(broker), listener->port};
}

}  // namespace

std::string local_url(const std::string& host, std::uint16_t port) {
  const auto* reachable = host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host.c_str();
  return "http://" + place_of(reachable, port);
}

core::result<started_gateway, gateway_errc> start_http_gateway(caf::actor_system& system,
                                                               gateway_options options,
                                                               gateway_environment environment) {
  return start(system, std::move(options), std::move(environment), gateway_scope::everything);
}

core::result<started_gateway, gateway_errc> start_monitor(caf::actor_system& system,
                                                          const monitor_options& options,
                                                          gateway_environment environment) {
  gateway_options watched;
  watched.host = options.host;
  watched.port = options.port;
  watched.max_connections = options.max_connections;
  return start(system, std::move(watched), std::move(environment), gateway_scope::monitoring);
}

}  // namespace yolk::actors
