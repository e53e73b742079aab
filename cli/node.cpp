#include "cli/node.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "actors/supervisor/cluster_identity.hpp"
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
  return 1;
}

/// "host:7700", "[::1]:7700".
std::optional<actors::node_address> address_of(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  auto host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
  if (host.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return actors::node_address{host, port};
}

std::optional<std::string> read_secret(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string secret((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  return secret;
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
  for (const auto& text : given.join) {
    const auto address = address_of(text);
    if (!address || address->port == 0) return fail("--join: " + text + " is no HOST:PORT");
    cluster.join.push_back(*address);
  }
  const auto listen =
      given.listen.empty() ? std::string(head ? head_listens_on : others_listen_on) : given.listen;
  cluster.listen = address_of(listen);
  if (!cluster.listen) return fail("--listen: " + listen + " is no HOST:PORT");
  const auto any = cluster.listen->host == "0.0.0.0" || cluster.listen->host == "::";
  if (any && cluster.advertise.empty())
    return fail("--advertise is needed with --listen " + listen + ": others cannot call " +
                cluster.listen->host);
  const auto secret = read_secret(given.secret_file);
  if (!secret) return fail("--secret-file: cannot read " + given.secret_file);
  auto identity = actors::cluster_identity::derive(*secret);
  if (!identity) return fail("--secret-file " + given.secret_file + ": " + identity.error().message);
  cluster.identity = std::move(identity).value();
  if (cluster.name.empty()) cluster.name = own_name();
  if ((cluster.roles & actors::role_prefill) == 0) node.prefill_workers = 0;
  if ((cluster.roles & actors::role_decode) == 0) node.decode_workers = 0;
  return run_service(service, "node");
}

}  // namespace yolk::cli
