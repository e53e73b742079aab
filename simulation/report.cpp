#include "simulation/report.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace yolk::simulation {

namespace {

using json = nlohmann::ordered_json;

std::vector<double> divided(std::vector<double> values, double by) {
  for (auto& value : values) value = by > 0 ? value / by : 0.0;
  return values;
}

std::size_t count_of(const cluster_description& cluster, node_role role) {
  return static_cast<std::size_t>(std::count_if(cluster.nodes.begin(), cluster.nodes.end(),
                                                [role](const auto& node) { return node.role == role; }));
}

json quantiles(const histogram& values) {
  return {{"count", values.count()},     {"mean", values.mean()},        {"p50", values.quantile(0.5)},
          {"p90", values.quantile(0.9)}, {"p95", values.quantile(0.95)}, {"p99", values.quantile(0.99)},
          {"max", values.largest()}};
}

json distribution(const histogram& values) {
  json value = json::array();
  json share = json::array();
  for (const auto& point : values.cumulative()) {
    value.push_back(point.value);
    share.push_back(point.share);
  }
  return {{"seconds", value}, {"share", share}};
}

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0.0;
}

json described(const report_input& input) {
  const auto& cluster = input.cluster;
  const auto& trace = input.trace;
  return {{"trace", input.trace_name},
          {"speedup", trace.speedup},
          {"jitter_seconds", trace.jitter_seconds},
          {"poisson_per_second", trace.poisson_per_second},
          {"seed", trace.seed},
          {"limit", trace.limit},
          {"cluster", cluster.name},
          {"prefill_nodes", count_of(cluster, node_role::prefill)},
          {"decode_nodes", count_of(cluster, node_role::decode)},
          {"block_tokens", cluster.block_tokens},
          {"placement", cluster.policy.placement.empty() ? "default" : cluster.policy.placement},
          {"admission", cluster.policy.admission.empty() ? "default" : cluster.policy.admission},
          {"chunk_tokens", cluster.policy.chunk_tokens},
          {"slo", {{"ttft_seconds", cluster.slo.ttft_seconds}, {"tbt_seconds", cluster.slo.tbt_seconds}}}};
}

json requests_of(const report_input& input) {
  const auto& count = input.result.results->count();
  json causes = json::object();
  for (const auto& [cause, times] : input.result.results->causes()) causes[cause] = times;
  const auto share = [&](std::uint64_t met) {
    return ratio(static_cast<double>(met), static_cast<double>(count.arrived));
  };
  return {{"arrived", count.arrived},
          {"finished", count.finished},
          {"refused", count.refused},
          {"failed", count.failed},
          {"resumed", count.resumes},
          {"refused_after_first_token", count.refused_after_first_token},
          {"causes", causes},
          {"share_ttft_met", share(count.ttft_met)},
          {"share_tbt_met", share(count.tbt_met)},
          {"share_both_met", share(count.both_met)},
          {"goodput_per_second", ratio(static_cast<double>(count.both_met), input.result.end_seconds)}};
}

json tokens_of(const measurements::totals& count) {
  return {{"input", count.input_tokens},
          {"cached", count.cached_tokens},
          {"generated", count.generated_tokens},
          {"hit_ratio",
           ratio(static_cast<double>(count.cached_tokens), static_cast<double>(count.input_tokens))}};
}

json transfers_of(const report_input& input) {
  const auto& results = *input.result.results;
  return {{"between_nodes", input.result.sent_bytes},
          {"within_nodes", input.result.local_bytes},
          {"prefill_to_decode", results.prefill_transfers.put_bytes},
          {"shard_to_prefill", results.prefill_transfers.get_bytes},
          {"worker_to_shard", results.shard_transfers.get_bytes},
          {"failed_transfers", results.prefill_transfers.failures + results.decode_transfers.failures +
                                   results.shard_transfers.failures}};
}

json pools_of(const report_input& input, const report_curves& curves) {
  const auto& count = input.result.results->count();
  const double time = input.result.end_seconds;
  const auto busy = [&](double seconds, node_role role) {
    return ratio(seconds, time * static_cast<double>(count_of(input.cluster, role)));
  };
  return {{"prefill_busy", busy(count.prefill_busy_seconds, node_role::prefill)},
          {"decode_busy", busy(count.decode_busy_seconds, node_role::decode)},
          {"prefill_seconds_per_request",
           ratio(count.prefill_busy_seconds, static_cast<double>(count.first_tokens))},
          {"prefill_steps", count.prefill_steps},
          {"decode_steps", count.decode_steps},
          {"load_correlation", correlation(curves.prefill_load, curves.decode_load)}};
}

}  // namespace

report_curves curves_of(const report_input& input) {
  const auto& results = *input.result.results;
  const double end = input.result.end_seconds;
  const auto parts = [&](const time_series& series) { return series.parts(end, report_points); };
  report_curves curves;
  curves.part_seconds = end / static_cast<double>(report_points);
  curves.arrivals = divided(parts(results.arrivals), curves.part_seconds);
  curves.goodput = divided(parts(results.goodput), curves.part_seconds);
  curves.refusals = divided(parts(results.refusals), curves.part_seconds);
  curves.waiting = divided(parts(results.waiting.series()), curves.part_seconds);
  curves.decoding = divided(parts(results.decoding.series()), curves.part_seconds);
  const auto prefill_nodes = static_cast<double>(count_of(input.cluster, node_role::prefill));
  curves.prefill_load = divided(parts(results.prefill_busy), curves.part_seconds * prefill_nodes);
  const auto decode_nodes = static_cast<double>(count_of(input.cluster, node_role::decode));
  curves.decode_load =
      divided(parts(results.decode_busy), curves.part_seconds * decode_nodes * input.cluster.slo.tbt_seconds);
  return curves;
}

std::string report_json(const report_input& input) {
  const auto& results = *input.result.results;
  const auto curves = curves_of(input);
  const json report = {{"version", 1},
                       {"replay", described(input)},
                       {"virtual_seconds", input.result.end_seconds},
                       {"messages", input.result.messages},
                       {"events", input.result.events},
                       {"requests", requests_of(input)},
                       {"ttft_seconds", quantiles(results.ttft())},
                       {"tbt_seconds", quantiles(results.tbt())},
                       {"gap_seconds", quantiles(results.gaps())},
                       {"end_to_end_seconds", quantiles(results.end_to_end())},
                       {"tokens", tokens_of(results.count())},
                       {"bytes", transfers_of(input)},
                       {"pools", pools_of(input, curves)},
                       {"audit", input.result.audit},
                       {"ttft_distribution", distribution(results.ttft())},
                       {"tbt_distribution", distribution(results.tbt())},
                       {"curves",
                        {{"part_seconds", curves.part_seconds},
                         {"arrivals", curves.arrivals},
                         {"goodput", curves.goodput},
                         {"refusals", curves.refusals},
                         {"waiting", curves.waiting},
                         {"decoding", curves.decoding},
                         {"prefill_load", curves.prefill_load},
                         {"decode_load", curves.decode_load}}}};
  return report.dump(1) + "\n";
}

std::string report_text(const report_input& input) {
  const auto& results = *input.result.results;
  const auto& count = results.count();
  const auto line = [](const char* name, const histogram& values) {
    char text[160];
    std::snprintf(text, sizeof text, "  %-11s mean %8.3f   P50 %8.3f   P90 %8.3f   P99 %8.3f s\n", name,
                  values.mean(), values.quantile(0.5), values.quantile(0.9), values.quantile(0.99));
    return std::string(text);
  };
  char text[400];
  std::snprintf(text, sizeof text,
                "%s on %s: %zu + %zu nodes, %.0f s of virtual time\n"
                "  requests    %llu: %llu finished, %llu refused, %llu failed; %.2f %% within both targets\n",
                input.trace_name.c_str(), input.cluster.name.c_str(),
                count_of(input.cluster, node_role::prefill), count_of(input.cluster, node_role::decode),
                input.result.end_seconds, static_cast<unsigned long long>(count.arrived),
                static_cast<unsigned long long>(count.finished),
                static_cast<unsigned long long>(count.refused), static_cast<unsigned long long>(count.failed),
                100 * ratio(static_cast<double>(count.both_met), static_cast<double>(count.arrived)));
  std::string all = text + line("TTFT", results.ttft()) + line("TBT", results.tbt());
  std::snprintf(
      text, sizeof text, "  tokens      %.2f %% of the input cached; %.3g bytes of KV between nodes\n",
      100 * ratio(static_cast<double>(count.cached_tokens), static_cast<double>(count.input_tokens)),
      input.result.sent_bytes);
  all += text;
  if (!input.result.audit.empty()) all += "  still held  " + input.result.audit + "\n";
  return all;
}

}  // namespace yolk::simulation
