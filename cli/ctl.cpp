#include "cli/ctl.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <tuple>

#include "actors/supervisor/control.hpp"
#include "cli/cluster_access.hpp"
#include "cli/exit_code.hpp"

namespace yolk::cli {

namespace {

int fail(const std::string& message, int exit_code = exit_failed) {
  std::fprintf(stderr, "yolk ctl: %s\n", message.c_str());
  return exit_code;
}

int with_cluster(const ctl_options& options, const std::function<int(actors::cluster_control&)>& what) {
  const auto heads = parse_heads(options.join);
  if (!heads) return fail(heads.error().message, exit_usage);
  auto identity = read_identity(options.secret_file);
  if (!identity) return fail(identity.error().message, exit_usage);
  const auto control = actors::cluster_control::start(std::move(identity).value());
  if (const auto connected = control->connect(heads.value()); !connected)
    return fail(connected.error().message);
  return what(*control);
}

}  // namespace

ctl_commands add_ctl(CLI::App& program, ctl_options& options) {
  auto* ctl = program.add_subcommand("ctl", "Look at a running cluster, and tell it what to do");
  ctl->require_subcommand(1);
  ctl->add_option("--join", options.join,
                  "HOST:PORT of the node with the conductor; several, separated by commas")
      ->delimiter(',')
      ->required();
  ctl->add_option("--secret-file", options.secret_file, "File with the cluster's secret")->required();
  ctl_commands commands;
  commands.status = ctl->add_subcommand("status", "Print the actors of all nodes");
  commands.drain = ctl->add_subcommand(
      "drain", "Place nothing more on a node's workers; what they generate goes on elsewhere");
  commands.drain->add_option("NODE", options.node, "The node's number, as status prints it")->required();
  return commands;
}

int run_ctl_status(const ctl_options& options) {
  return with_cluster(options, [](actors::cluster_control& control) {
    auto status = control.status();
    if (!status) return fail(status.error().message);
    auto& cluster = status.value();
    std::sort(cluster.actors.begin(), cluster.actors.end(),
              [](const auto& a, const auto& b) { return std::tie(a.node, a.id) < std::tie(b.node, b.id); });
    std::printf("%s\n\n", cluster.healthy ? "healthy" : ("not healthy: " + cluster.reason).c_str());
    std::printf("%5s  %-22s %8s %8s %20s %9s\n", "node", "actor", "running", "waiting", "blocks used/cached",
                "restarts");
    for (const auto& actor : cluster.actors) {
      char blocks[64] = "";
      if (actor.blocks_total > 0)
        std::snprintf(blocks, sizeof blocks, "%u/%u of %u", actor.blocks_used, actor.blocks_cached,
                      actor.blocks_total);
      std::printf("%5u  %-22s %8u %8u %20s %9u\n", actor.node,
                  (actor.kind + " " + std::to_string(actor.id)).c_str(), actor.running, actor.waiting, blocks,
                  actor.restarts);
    }
    return cluster.healthy ? 0 : 1;
  });
}

int run_ctl_drain(const ctl_options& options) {
  return with_cluster(options, [&](actors::cluster_control& control) {
    if (const auto done = control.drain(options.node); !done) return fail(done.error().message);
    std::printf("node %u gets no more work; end its process when `yolk ctl status` shows nothing running\n",
                options.node);
    return 0;
  });
}

}  // namespace yolk::cli
