#include "cli/node.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string_view>

#include "actors/supervisor/kubernetes_lease.hpp"
#include "cli/cluster_access.hpp"
#include "cli/exit_code.hpp"
#include "cli/option_file.hpp"

namespace yolk::cli {

namespace {

constexpr const char* head_listens_on = "127.0.0.1:7700";
constexpr const char* others_listen_on = "127.0.0.1:0";

const std::map<std::string, std::uint32_t> role_names = {{"gateway", actors::role_gateway},
                                                         {"conductor", actors::role_conductor},
                                                         {"prefill", actors::role_prefill},
                                                         {"decode", actors::role_decode},
                                                         {"cache", actors::role_cache}};

int fail(const std::string& message) {
  std::fprintf(stderr, "yolk node: %s\n", message.c_str());
  return exit_usage;
}

std::chrono::milliseconds in_milliseconds(double seconds) {
  return std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

core::result<std::shared_ptr<actors::lease>, actors::lease_errc> make_lease(const node_command_options& given,
                                                                            const std::string& node_name) {
  constexpr std::string_view kubernetes = "k8s:";
  if (!given.lease.starts_with(kubernetes)) return actors::make_file_lease(given.lease);
  auto options = actors::parse_kubernetes_lease(given.lease.substr(kubernetes.size()));
  if (!options) return options.error();
  // A name alone may come again: whoever starts under a dead node's name must not take its lease for his own.
  options->holder = node_name + "-" + std::to_string(std::random_device()());
  options->duration = in_milliseconds(given.lease_seconds);
  return actors::make_kubernetes_lease(std::move(options).value());
}

std::string own_name() {
  char host[256] = "node";
  ::gethostname(host, sizeof host - 1);
  return std::string(host) + "-" + std::to_string(::getpid());
}

}  // namespace

void declare_node(CLI::App& command, node_command_options& options) {
  add_option_file(command, "node");
  auto& cluster = options.service.node.cluster;
  std::string names;
  for (const auto& [name, bit] : role_names) names += (names.empty() ? "" : ", ") + name;
  command.add_option("--role", options.roles, "What the node does, separated by commas: " + names)
      ->delimiter(',')
      ->check(CLI::IsMember(role_names))
      ->required();
  command
      .add_option("--join", options.join,
                  "HOST:PORT of the node with the conductor; several, separated by commas, are tried in turn")
      ->delimiter(',');
  command.add_option(
      "--listen", options.listen,
      std::string("HOST:PORT where other nodes reach this one; port 0 = any free one (default: ") +
          head_listens_on + " with the conductor, else " + others_listen_on + ")");
  command.add_option("--advertise", cluster.advertise,
                     "Host that other nodes are told (default: the one of --listen)");
  command
      .add_option("--secret-file", options.secret_file,
                  "File with the cluster's secret, at least 16 bytes, the same on every node")
      ->required();
  command.add_option(
      "--lease", options.lease,
      "With the conductor: what makes the node the head; others with the same stand by. A file, "
      "whose lock it is, or k8s:NAME or k8s:URL/NAMESPACE/NAME, a Lease of Kubernetes");
  command
      .add_option("--lease-seconds", options.lease_seconds,
                  "With k8s: after so long without a word of its holder another may take the lease")
      ->check(CLI::Range(0.5, 600.0))
      ->capture_default_str();
  command
      .add_option("--heartbeat-interval", options.heartbeat_interval,
                  "Seconds between two words to every other node; alike on every node")
      ->check(CLI::Range(0.05, 5.0))
      ->capture_default_str();
  command
      .add_option(
          "--heartbeat-timeout", options.heartbeat_timeout,
          "Seconds of silence after which a node is taken for dead, at least twice the interval; alike "
          "on every node")
      ->check(CLI::Range(1.0, 600.0))
      ->capture_default_str();
  command.add_option("--name", cluster.name, "What people read of this node (default: host and process id)");
  declare_service(command, options.service);
}

int run_node(const node_command_options& given) {
  auto service = given.service;
  auto& node = service.node;
  auto& cluster = node.cluster;
  cluster.roles = 0;
  for (const auto& name : given.roles) cluster.roles |= role_names.at(name);
  const bool head = (cluster.roles & actors::role_conductor) != 0;
  if (head && !given.join.empty())
    return fail("--join: a node with the conductor is what others join; it joins nobody");
  if (!head && given.join.empty()) return fail("--join HOST:PORT is needed without the role conductor");
  auto heads = parse_heads(given.join);
  if (!heads) return fail(heads.error().message);
  cluster.join = std::move(heads).value();
  const auto listen =
      given.listen.empty() ? std::string(head ? head_listens_on : others_listen_on) : given.listen;
  cluster.listen = parse_address(listen);
  if (!cluster.listen) return fail("--listen: " + listen + " is no HOST:PORT");
  const auto any = cluster.listen->host == "0.0.0.0" || cluster.listen->host == "::";
  if (any && cluster.advertise.empty())
    return fail("--advertise is needed with --listen " + listen + ": others cannot call " +
                cluster.listen->host);
  auto identity = read_identity(given.secret_file);
  if (!identity) return fail(identity.error().message);
  cluster.identity = std::move(identity).value();
  if (cluster.name.empty()) cluster.name = own_name();
  if (!given.lease.empty()) {
    if (!head) return fail("--lease is for nodes with the role conductor");
    auto lease = make_lease(given, cluster.name);
    if (!lease) return fail("--lease: " + lease.error().message);
    cluster.leadership = std::move(lease).value();
  }
  if (given.heartbeat_timeout < 2 * given.heartbeat_interval)
    return fail("--heartbeat-timeout: " + short_number(given.heartbeat_timeout) +
                " s is less than twice --heartbeat-interval, " + short_number(given.heartbeat_interval) +
                " s");
  cluster.heartbeat = {in_milliseconds(given.heartbeat_interval), in_milliseconds(given.heartbeat_timeout)};
  if ((cluster.roles & actors::role_prefill) == 0) node.prefill_workers = 0;
  if ((cluster.roles & actors::role_decode) == 0) node.decode_workers = 0;
  return run_service(service, "node");
}

}  // namespace yolk::cli
