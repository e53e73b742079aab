#include "cli/replay.hpp"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/exit_code.hpp"
#include "scheduling/placement.hpp"
#include "scheduling/slo_admission.hpp"
#include "simulation/replay.hpp"
#include "simulation/report.hpp"

namespace yolk::cli {

namespace {

int fail(const std::string& message, int exit_code = exit_usage) {
  std::fprintf(stderr, "yolk replay: %s\n", message.c_str());
  return exit_code;
}

bool write_file(const std::string& path, const std::string& text) {
  if (path == "-") return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return !file.fail();
}

int show_preset(const std::string& name) {
  const auto text = simulation::preset_text(name);
  if (text.empty()) return fail("--show-preset: there is no preset '" + name + "'");
  return write_file("-", std::string(text)) ? 0 : exit_failed;
}

}  // namespace

CLI::App* add_replay(CLI::App& app, replay_options& options) {
  auto* replay =
      app.add_subcommand("replay", "Replay a trace of requests on a simulated cluster, in virtual time");
  auto* trace = replay->add_option("TRACE", options.trace_path,
                                   "Mooncake's JSON lines, or Azure's CSV (docs/simulation.md)");
  std::string presets;
  for (const auto& name : simulation::preset_names()) presets += (presets.empty() ? "" : ", ") + name;
  replay->add_option("--cluster", options.cluster, "A cluster file, or a preset (" + presets + ")")
      ->capture_default_str();
  replay->add_option("--speedup", options.trace.speedup, "Requests arrive so many times as fast")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  replay
      ->add_option("--jitter", options.trace.jitter_seconds,
                   "Each arrival is later by up to so many seconds of the trace (3: within its ticks)")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  replay
      ->add_option("--poisson", options.trace.poisson_per_second,
                   "Draw arrivals at so many requests a second instead of the trace's times; 0 = the trace's")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  replay->add_option("--seed", options.seed, "Of all that is drawn (default: the cluster's)");
  replay->add_option("--limit", options.trace.limit, "Replay so many requests; 0 = all")
      ->capture_default_str();
  const auto placements = scheduling::placement_policy_names();
  replay
      ->add_option("--placement", options.placement,
                   "How workers are chosen for a request (default: the cluster's)")
      ->check(CLI::IsMember(std::vector<std::string>(placements.begin(), placements.end())));
  const auto rules = scheduling::admission_rule_names();
  replay->add_option("--admission", options.admission, "Which requests are refused (default: the cluster's)")
      ->check(CLI::IsMember(std::vector<std::string>(rules.begin(), rules.end())));
  replay->add_option("--json", options.json_path,
                     "Write the report as JSON to this file; - = standard output");
  replay->add_option("--html", options.html_path, "Write the report as a page with plots to this file");
  auto* show = replay->add_option("--show-preset", options.show_preset,
                                  "Print a preset's cluster file, to begin with, and end");
  trace->excludes(show);
  return replay;
}

int run_replay(const replay_options& given) {
  if (!given.show_preset.empty()) return show_preset(given.show_preset);
  if (given.trace_path.empty()) return fail("TRACE is required");
  auto described = simulation::read_cluster(given.cluster);
  if (!described) return fail("--cluster: " + described.error().message);
  auto cluster = std::move(described).value();
  if (given.seed) cluster.seed = *given.seed;
  if (!given.placement.empty()) cluster.policy.placement = given.placement;
  if (!given.admission.empty()) cluster.policy.admission = given.admission;
  auto options = given.trace;
  options.seed = cluster.seed;
  auto trace = simulation::trace_reader::open(given.trace_path, options);
  if (!trace) return fail(trace.error().message);

  const auto begin = std::chrono::steady_clock::now();
  auto replayed = simulation::replay(**trace, cluster);
  if (!replayed) return fail(replayed.error().message, exit_failed);
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto name = std::filesystem::path(given.trace_path).filename().string();
  const simulation::report_input report{cluster, options, name, *replayed};
  if (given.json_path != "-") std::fputs(simulation::report_text(report).c_str(), stdout);
  std::fprintf(stderr, "  replayed in %.1f s: %.1f million messages, %.1f million events\n", seconds,
               static_cast<double>(replayed->messages) / 1e6, static_cast<double>(replayed->events) / 1e6);
  if (!given.json_path.empty() && !write_file(given.json_path, simulation::report_json(report)))
    return fail("--json: " + given.json_path + ": cannot be written", exit_failed);
  if (!given.html_path.empty() && !write_file(given.html_path, simulation::report_page(report)))
    return fail("--html: " + given.html_path + ": cannot be written", exit_failed);
  return 0;
}

}  // namespace yolk::cli
