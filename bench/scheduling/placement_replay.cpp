// TTFT of every placement policy on a trace's prefill side:
//   placement_replay [TRACE.jsonl] [--nodes N] [--speed-up X]... [--jitter SECONDS] [--link BYTES_PER_SECOND]
//     [--hold SECONDS] [--short-first WEIGHT] [--policy NAME]...
// Without a trace a small one is made up.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/scheduling/prefill_replay.hpp"

using namespace yolk;

int main(int argc, char** argv) {
  tests::replay_options options;
  std::string path;
  std::vector<double> speed_ups;
  std::vector<std::string> policies;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : "0"; };
    if (argument == "--nodes") {
      options.nodes = static_cast<std::uint32_t>(std::atoi(value()));
    } else if (argument == "--speed-up") {
      speed_ups.push_back(std::atof(value()));
    } else if (argument == "--jitter") {
      options.jitter_seconds = std::atof(value());
    } else if (argument == "--link") {
      options.link_bytes_per_second = std::atof(value());
    } else if (argument == "--hold") {
      options.placement.hold_seconds = std::atof(value());
    } else if (argument == "--short-first") {
      options.placement.short_first_weight = std::atof(value());
    } else if (argument == "--policy") {
      policies.emplace_back(value());
    } else {
      path = argument;
    }
  }
  const auto requests = path.empty() ? tests::made_trace(1, 300) : tests::read_trace(path);
  if (speed_ups.empty()) speed_ups = {1.0, 1.5, 1.75, 2.0};
  if (policies.empty())
    for (const auto name : scheduling::placement_policy_names()) policies.emplace_back(name);
  std::printf(
      "| speed-up | policy | mean s | P50 | P90 | P99 | hits | pulled "
      "|\n|---|---|---|---|---|---|---|---|\n");
  for (const double speed_up : speed_ups) {
    options.speed_up = speed_up;
    for (const auto& policy : policies) {
      const auto outcome = tests::replay_prefill(requests, policy, options);
      std::printf("| %.2f | %s | %.2f | %.2f | %.2f | %.2f | %.3f | %.3f |\n", speed_up, policy.c_str(),
                  outcome.mean_seconds, outcome.percentile(0.5), outcome.percentile(0.9),
                  outcome.percentile(0.99), outcome.hit_ratio, outcome.pulled_share);
      std::fflush(stdout);
    }
  }
  return 0;
}
