// Refusals and targets met under every admission rule, prefill and decode, on a trace:
//   overload_replay [TRACE.jsonl] [--nodes PREFILL] [--decode NODES] [--speed-up X] [--jitter SECONDS]
//     [--slo-ttft SECONDS] [--slo-tbt SECONDS] [--policy NAME]...
// Without a trace a small one is made up.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/scheduling/prefill_replay.hpp"

using namespace yolk;

int main(int argc, char** argv) {
  tests::replay_options options{.decode_nodes = 8, .speed_up = 2.0};
  std::string path;
  std::vector<std::string> policies;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : "0"; };
    if (argument == "--nodes") {
      options.nodes = static_cast<std::uint32_t>(std::atoi(value()));
    } else if (argument == "--decode") {
      options.decode_nodes = static_cast<std::uint32_t>(std::atoi(value()));
    } else if (argument == "--speed-up") {
      options.speed_up = std::atof(value());
    } else if (argument == "--jitter") {
      options.jitter_seconds = std::atof(value());
    } else if (argument == "--slo-ttft") {
      options.slo.ttft_seconds = std::atof(value());
    } else if (argument == "--slo-tbt") {
      options.slo.tbt_seconds = std::atof(value());
    } else if (argument == "--short-first-seconds") {
      options.placement.short_first_seconds = std::atof(value());
    } else if (argument == "--policy") {
      policies.emplace_back(value());
    } else {
      path = argument;
    }
  }
  const auto requests = path.empty() ? tests::made_trace(1, 300) : tests::read_trace(path);
  if (policies.empty()) policies = {"mooncake", "yolk"};
  std::printf("| policy | rule | refused early | late | all | finished | of these met | goodput |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (const auto& policy : policies)
    for (const auto rule : scheduling::admission_rule_names()) {
      options.rule = *scheduling::find_admission_rule(rule);
      const auto outcome = tests::replay_prefill(requests, policy, options);
      std::printf("| %s | %s | %u | %u | %u | %u | %.4f | %.4f |\n", policy.c_str(),
                  std::string(rule).c_str(), outcome.refused_early, outcome.refused_late,
                  outcome.refused_early + outcome.refused_late, outcome.finished,
                  outcome.met / std::max(1.0, static_cast<double>(outcome.finished)),
                  outcome.met / static_cast<double>(requests.size()));
      std::fflush(stdout);
    }
  return 0;
}
