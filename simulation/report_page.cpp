#include <algorithm>
#include <cstdio>

#include "simulation/report.hpp"
#include "simulation/svg_chart.hpp"

namespace yolk::simulation {

namespace {

constexpr const char* style = R"(
:root{color-scheme:light dark;--paper:#fff;--ink:#1d2433;--soft:#667085;--rule:#e4e7ec;--card:#f7f8fa;
--c0:#1f6feb;--c1:#d9480f;--c2:#2b8a3e}
@media(prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#e6e9ef;--soft:#9aa4b2;--rule:#2b313b;--card:#1b2027;
--c0:#6ea8fe;--c1:#ff922b;--c2:#69db7c}}
body{margin:0 auto;max-width:1240px;padding:28px 20px 60px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:24px;margin:0 0 4px}h2{font-size:17px;margin:34px 0 10px}p{margin:4px 0;color:var(--soft)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-top:18px}
.card{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:10px 14px}
.card b{display:block;font-size:22px;font-weight:600}.card span{color:var(--soft);font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:16px}
svg{width:100%;background:var(--card);border:1px solid var(--rule);border-radius:10px;font-family:inherit}
.grid{stroke:var(--rule)}.tick,.name,.legend{fill:var(--soft);font-size:11px}
.title{fill:var(--ink);font-size:13px;font-weight:600}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.line0{stroke:var(--c0)}.line1{stroke:var(--c1)}.line2{stroke:var(--c2)}
.target{stroke:var(--c1);stroke-dasharray:4 4}
table{border-collapse:collapse;width:100%}td,th{padding:5px 10px;border-bottom:1px solid var(--rule);text-align:right}
td:first-child,th:first-child{text-align:left}th{color:var(--soft);font-weight:500}
)";

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string card(const std::string& value, const std::string& name) {
  return "<div class='card'><b>" + html_text(value) + "</b><span>" + html_text(name) + "</span></div>\n";
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string cards(const report_input& input, const report_curves& curves) {
  const auto& results = *input.result.results;
  const auto& count = results.count();
  std::string all = "<div class='cards'>\n";
  all += card(number(share(count.both_met, count.arrived), "%.2f %"), "of requests within both targets");
  all += card(short_number(input.result.end_seconds > 0
                               ? static_cast<double>(count.both_met) / input.result.end_seconds
                               : 0.0) +
                  " /s",
              "goodput");
  all += card(number(results.ttft().mean(), "%.2f s"), "mean TTFT");
  all += card(number(results.ttft().quantile(0.99), "%.2f s"), "P99 TTFT");
  all += card(number(1e3 * results.tbt().quantile(0.9), "%.1f ms"), "P90 TBT");
  all += card(number(share(count.cached_tokens, count.input_tokens), "%.1f %"), "of input tokens cached");
  all += card(std::to_string(count.refused), "requests refused");
  all += card(number(correlation(curves.prefill_load, curves.decode_load), "%.2f"),
              "correlation of the pools' loads");
  return all + "</div>\n";
}

chart distribution(const std::string& title, const histogram& values, double target) {
  chart drawn{.title = title, .x_name = "seconds", .y_name = "share of requests", .log_x = true, .top = 1.0};
  chart_line line{title, {}};
  for (const auto& point : values.cumulative())
    line.points.push_back({std::max(point.value, 1e-3), point.share});
  drawn.lines.push_back(std::move(line));
  drawn.target_x = chart_point{target, 0.0};
  return drawn;
}

chart over_time(const std::string& title, const std::string& y_name, double part_seconds,
                const std::vector<std::pair<std::string, const std::vector<double>*>>& named) {
  chart drawn{.title = title, .x_name = "minutes", .y_name = y_name};
  for (const auto& [name, values] : named) {
    chart_line line{name, {}};
    for (std::size_t i = 0; i < values->size(); ++i)
      line.points.push_back({(static_cast<double>(i) + 0.5) * part_seconds / 60, (*values)[i]});
    drawn.lines.push_back(std::move(line));
  }
  return drawn;
}

std::string charts(const report_input& input, const report_curves& curves) {
  const auto& results = *input.result.results;
  const auto& slo = input.cluster.slo;
  std::string all = "<h2>Latency</h2>\n<p>The dashed line is the target.</p><div class='charts'>\n";
  all += svg_of(distribution("Time to first token", results.ttft(), slo.ttft_seconds));
  all += svg_of(distribution("Time between tokens (slowest tenth of a request's gaps)", results.tbt(),
                             slo.tbt_seconds));
  all += "</div>\n<h2>Over time</h2>\n<div class='charts'>\n";
  all += svg_of(over_time(
      "Load of the pools", "load", curves.part_seconds,
      {{"prefill: share busy", &curves.prefill_load}, {"decode: step time / target", &curves.decode_load}}));
  all += svg_of(over_time("Requests in the cluster", "requests", curves.part_seconds,
                          {{"before their first token", &curves.waiting}, {"generating", &curves.decoding}}));
  all += svg_of(over_time("Requests a second", "1/s", curves.part_seconds,
                          {{"arrived", &curves.arrivals},
                           {"refused or failed", &curves.refusals},
                           {"goodput", &curves.goodput}}));
  return all + "</div>\n";
}

std::string row(const std::string& name, const std::vector<std::string>& cells) {
  std::string all = "<tr><td>" + html_text(name) + "</td>";
  for (const auto& cell : cells) all += "<td>" + html_text(cell) + "</td>";
  return all + "</tr>\n";
}

std::string latency_table(const measurements& results) {
  std::string all =
      "<h2>Seconds</h2>\n<table><tr><th></th><th>mean</th><th>P50</th><th>P90</th><th>P99</th><th>max</th></"
      "tr>\n";
  const auto line = [&](const std::string& name, const histogram& values) {
    std::vector<std::string> cells;
    for (const double value :
         {values.mean(), values.quantile(0.5), values.quantile(0.9), values.quantile(0.99), values.largest()})
      cells.push_back(number(value, "%.3f"));
    all += row(name, cells);
  };
  line("TTFT", results.ttft());
  line("TBT of a request", results.tbt());
  line("gap between tokens", results.gaps());
  line("end to end", results.end_to_end());
  return all + "</table>\n";
}

std::string count_table(const report_input& input) {
  const auto& results = *input.result.results;
  const auto& count = results.count();
  std::string all = "<h2>Requests, tokens, bytes</h2>\n<table>\n";
  const auto line = [&](const std::string& name, double value) { all += row(name, {short_number(value)}); };
  all += row("requests", {std::to_string(count.arrived)});
  all += row("finished", {std::to_string(count.finished)});
  for (const auto& [cause, times] : results.causes())
    all += row("refused or failed: " + cause, {std::to_string(times)});
  all += row("tried again after a fault or preemption", {std::to_string(count.resumes)});
  line("input tokens", static_cast<double>(count.input_tokens));
  line("of them cached", static_cast<double>(count.cached_tokens));
  line("generated tokens", static_cast<double>(count.generated_tokens));
  line("bytes between nodes", input.result.sent_bytes);
  line("bytes within nodes", input.result.local_bytes);
  line("bytes from prefill to decode workers", static_cast<double>(results.prefill_transfers.put_bytes));
  line("bytes from cache shards to prefill workers",
       static_cast<double>(results.prefill_transfers.get_bytes));
  line("bytes from workers to cache shards", static_cast<double>(results.shard_transfers.get_bytes));
  return all + "</table>\n";
}

std::string heading(const report_input& input) {
  const auto& policy = input.cluster.policy;
  const auto name = [](const std::string& given) { return given.empty() ? std::string("default") : given; };
  std::string what = "speed-up " + short_number(input.trace.speedup) + ", jitter " +
                     short_number(input.trace.jitter_seconds) + " s, seed " +
                     std::to_string(input.trace.seed) + "; placement " + name(policy.placement) +
                     ", admission " + name(policy.admission) + "; " + short_number(input.result.end_seconds) +
                     " s of virtual time; targets: TTFT " + short_number(input.cluster.slo.ttft_seconds) +
                     " s, TBT " + short_number(1e3 * input.cluster.slo.tbt_seconds) + " ms";
  return "<h1>" + html_text(input.trace_name) + " on " + html_text(input.cluster.name) + "</h1>\n<p>" +
         html_text(what) + "</p>\n";
}

}  // namespace

std::string report_page(const report_input& input) {
  const auto curves = curves_of(input);
  return "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\n"
         "<meta name='viewport' content='width=device-width,initial-scale=1'>\n<title>" +
         html_text(input.trace_name) + "</title>\n<style>" + style + "</style></head><body>\n" +
         heading(input) + cards(input, curves) + charts(input, curves) +
         latency_table(*input.result.results) + count_table(input) + "</body></html>\n";
}

}  // namespace yolk::simulation
