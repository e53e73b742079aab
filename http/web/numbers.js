// ---------------------------------------------------------------- numbers, charts, table
const history = [];
const span = 120;  // polls that a chart shows

function showTiles(view) {
  const c = view.counters;
  const rows = [["running", c.requests_running], ["waiting", c.requests_waiting], ["finished", c.requests_finished], ["refused", c.requests_refused], ["cancelled", c.requests_cancelled], ["preempted", c.preemptions]];
  if (c.transfer_failures) rows.push(["failed moves", c.transfer_failures, "bad"]);
  $("tiles").replaceChildren(...rows.map(([name, value, bad]) => make("div", {className: "tile " + (bad || "")}, make("b", {textContent: count(value)}), make("span", {textContent: name}))));
}
const charts = [
  {title: "Time to first token", color: "var(--blue)", lines: (h) => [h.ttft50, h.ttft99], now: (h) => h.ttft99 ? [milliseconds(h.ttft50), "P50", milliseconds(h.ttft99), "P99"] : ["–", ""]},
  {title: "Time between tokens", color: "var(--green)", lines: (h) => [h.tbt50, h.tbt99], now: (h) => h.tbt99 ? [milliseconds(h.tbt50), "P50", milliseconds(h.tbt99), "P99"] : ["–", ""]},
  {title: "Generated", color: "var(--green)", lines: (h) => [h.generated], now: (h) => [rate(h.generated), "tokens/s"]},
  {title: "Prompt tokens from the cache", color: "var(--yolk)", lines: (h) => [h.cached], now: (h) => [percent(h.cachedSum, h.promptSum), "of all"], top: 1},
];
for (const chart of charts) {
  chart.value = make("div", {className: "now"});
  chart.svg = draw("svg", {viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true"});
  chart.area = draw("path", {class: "area"});
  chart.paths = [draw("path"), draw("path")];
  chart.svg.append(chart.area, ...chart.paths);
  chart.area.style.fill = chart.color;
  chart.paths[0].style.stroke = chart.color;
  set(chart.paths[1], {style: "stroke:" + chart.color + ";opacity:.45;stroke-width:1.25"});
  $("charts").append(make("div", {className: "chart"}, make("div", {className: "head"}, make("h3", {textContent: chart.title}), chart.value), chart.svg));
}
function remember(view, before) {
  const seconds = before ? view.at - before.at : 0, c = view.counters, b = before && before.counters;
  const prompt = b ? c.prompt_tokens - b.prompt_tokens : 0;
  const last = history[history.length - 1];
  history.push({
    ttft50: view.latency.ttft.p50_ms, ttft99: view.latency.ttft.p99_ms, tbt50: view.latency.tbt.p50_ms, tbt99: view.latency.tbt.p99_ms,
    generated: seconds > 0 ? Math.max(0, c.generated_tokens - b.generated_tokens) / seconds : 0,
    cached: prompt > 0 ? Math.max(0, c.cached_tokens - b.cached_tokens) / prompt : last ? last.cached : 0,
    cachedSum: c.cached_tokens, promptSum: c.prompt_tokens});
  if (history.length > span) history.shift();
}
function showCharts() {
  const now = history[history.length - 1];
  for (const chart of charts) {
    chart.value.replaceChildren(...chart.now(now).map((part, i) => i % 2 ? make("small", {textContent: part}) : part));
    const series = history.map(chart.lines);
    const highest = chart.top || Math.max(1e-9, ...series.flat()) * 1.08;
    const x = (i) => 100 - (history.length - 1 - i) * 100 / (span - 1), y = (value) => 39 - 37 * Math.min(1, value / highest);
    series[0].forEach((_, line) => {
      const d = series.map((values, i) => (i ? "L" : "M") + x(i).toFixed(2) + " " + y(values[line]).toFixed(2)).join("");
      chart.paths[line].setAttribute("d", d);
      if (line === 0) chart.area.setAttribute("d", d + "L100 40L" + x(0).toFixed(2) + " 40Z");
    });
  }
}
const columns = [["actor", (a) => a.name], ["state", (a) => a.state], ["waiting", (a) => count(a.queue)], ["running", (a) => count(a.running)], ["KV used", (a) => a.blocks_total ? count(a.blocks_used) : ""],
  ["KV cached", (a) => a.blocks_total ? count(a.blocks_cached) : ""], ["KV blocks", (a) => a.blocks_total ? count(a.blocks_total) : ""], ["tokens/s", (a) => a.tokens_per_second ? rate(a.tokens_per_second) : ""], ["restarts", (a) => count(a.restarts)]];
$("table-head").append(make("tr", {}, ...columns.map(([name]) => make("th", {scope: "col", textContent: name}))));
function showTable(view) {
  $("table-body").replaceChildren(...view.actors.map((actor) => make("tr", {}, ...columns.map(([, value]) => make("td", {textContent: value(actor)})))));
}
function showHeader(view) {
  model = view.model;
  document.title = view.model ? "Yolk · " + view.model : "Yolk";
  $("what").replaceChildren(make("b", {textContent: view.model}), make("span", {className: "more", textContent: "  on " + view.device + ", context " + count(view.max_model_len) + " tokens, up " + duration(view.uptime_seconds)}));
}
function showLive(className, text) {
  $("live-dot").className = "dot " + className;
  $("live-text").textContent = text;
  $("cluster").classList.toggle("stale", className === "off");
}

// ---------------------------------------------------------------- polling
let lostAt = 0;
let polling = null;
async function look() {
  const response = await fetch("cluster", {headers: headers(), cache: "no-store", signal: AbortSignal.timeout(4000)});
  if (response.status === 401) { askForKey(); showLive("off", "needs an API key"); return; }
  if (!response.ok) throw new Error("status " + response.status);
  const view = await response.json();
  view.at = performance.now() / 1000;
  previous = latest;
  latest = view;
  lostAt = 0;
  showLive("on", "live");
  showHeader(view);
  showTiles(view);
  remember(view, previous);
  showCharts();
  showTable(view);
  refreshPicture();
}
async function poll() {
  clearTimeout(polling);
  if (!document.hidden) {
    await look().catch(() => {
      lostAt = lostAt || performance.now();
      showLive("off", "no answer for " + duration((performance.now() - lostAt) / 1000 + 1));
    });
  }
  clearTimeout(polling);
  polling = setTimeout(poll, 1000);
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
new ResizeObserver(refreshPicture).observe($("cluster"));
poll();
