#include "actors/http_gateway/cluster_answer.hpp"

#include <chrono>
#include <map>
#include <utility>

#include "actors/conversions.hpp"
#include "http/cluster_view.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

namespace {

bool computes(schema::ActorKind kind) {
  return kind == schema::ActorKind::PREFILL_WORKER || kind == schema::ActorKind::DECODE_WORKER;
}

std::string name_of(schema::ActorStatus::Reader actor) {
  return std::string(kind_name(actor.getKind())) + " " + std::to_string(actor.getId());
}

using token_counts = std::map<std::pair<std::string, std::uint64_t>, std::uint64_t>;

/// Tokens done by (actor, incarnation): a restarted actor counts from nought again.
token_counts count_tokens(const messages::health_report& report) {
  token_counts counts;
  if (!report) return counts;
  const auto view = report.read();
  for (const auto actor : view->getCluster().getActors())
    counts[{name_of(actor), actor.getIncarnation()}] = actor.getTokensDone();
  return counts;
}

http::actor_view view_of(schema::ActorStatus::Reader actor, const std::string& device) {
  http::actor_view view{.name = name_of(actor), .kind = kind_name(actor.getKind())};
  view.state = actor.getRunning() > 0 || actor.getHasWork() ? "busy" : "ready";
  // Its kind alone: "host: AVX-512, 2 threads" is told once, of all of them.
  if (computes(actor.getKind())) view.device = device.substr(0, device.find(':'));
  view.incarnation = actor.getIncarnation();
  view.queue = actor.getWaiting();
  view.running = actor.getRunning();
  view.blocks_total = actor.getBlocksTotal();
  view.blocks_used = actor.getBlocksUsed();
  view.blocks_cached = actor.getBlocksCached();
  return view;
}

http::tier_view tier_of(schema::ActorStatus::Reader actor) {
  const bool shard = actor.getKind() == schema::ActorKind::CACHE_SHARD;
  const std::uint64_t used = std::uint64_t{actor.getBlocksUsed()} + actor.getBlocksCached();
  return {.name = shard ? "dram" : "device",
          .owner = name_of(actor),
          .bytes_used = used * actor.getBlockBytes(),
          .bytes_limit = actor.getBlocksTotal() * actor.getBlockBytes(),
          .hit_tokens = actor.getHitTokens(),
          .miss_tokens = actor.getMissTokens(),
          .evicted_blocks = actor.getEvictedBlocks()};
}

/// What prefill workers sent. Their reports do not say to whom, so lines are drawn where there is one choice
/// only.
void add_links(schema::ClusterStatus::Reader cluster, http::cluster_view& view) {
  std::string decoder;
  unsigned decoders = 0;
  for (const auto actor : cluster.getActors())
    if (actor.getKind() == schema::ActorKind::DECODE_WORKER && ++decoders > 0) decoder = name_of(actor);
  if (decoders != 1) return;
  for (const auto actor : cluster.getActors())
    if (actor.getKind() == schema::ActorKind::PREFILL_WORKER)
      view.links.push_back({.from = name_of(actor),
                            .to = decoder,
                            .transfers = actor.getTransfers(),
                            .bytes = actor.getTransferBytes()});
}

void add_actors(const session_context& context, const health_window& health, http::cluster_view& view) {
  if (!health.newest) return;
  const auto report = health.newest.read();
  const auto cluster = report->getCluster();
  const token_counts before = count_tokens(health.oldest);
  const double seconds = std::chrono::duration<double>(health.between).count();
  view.uptime_seconds = static_cast<double>(cluster.getStartedMilliseconds()) / 1000.0;
  const auto restarts = cluster.getRestarts();
  unsigned index = 0;
  for (const auto actor : cluster.getActors()) {
    http::actor_view shown = view_of(actor, context.options.device);
    if (index < restarts.size()) shown.restarts = restarts[index];
    const auto earlier = before.find({shown.name, shown.incarnation});
    if (earlier != before.end() && seconds > 0 && actor.getTokensDone() > earlier->second)
      shown.tokens_per_second = static_cast<double>(actor.getTokensDone() - earlier->second) / seconds;
    if (actor.getBlocksTotal() > 0) view.tiers.push_back(tier_of(actor));
    if (actor.getKind() == schema::ActorKind::ADMISSION_CONTROLLER) {
      view.counters.requests_running = actor.getRunning();
      view.counters.requests_waiting = actor.getWaiting();
    }
    view.actors.push_back(std::move(shown));
    ++index;
  }
  add_links(cluster, view);
}

http::quantiles_view milliseconds(const metrics::quantiles& seconds, std::uint64_t count) {
  return {
      .p50_ms = seconds.p50 * 1e3, .p90_ms = seconds.p90 * 1e3, .p99_ms = seconds.p99 * 1e3, .count = count};
}

}  // namespace

std::string cluster_answer(const session_context& context, const health_window& health) {
  const metrics& recorder = *context.environment.recorder;
  http::cluster_view view{.model = context.environment.model->name,
                          .version = YOLK_VERSION,
                          .url = context.url,
                          .device = context.options.device,
                          .max_model_len = context.context_tokens,
                          .block_tokens = context.options.block_tokens};
  add_actors(context, health, view);
  const metrics::totals totals = recorder.count();
  view.latency.ttft = milliseconds(recorder.recent_time_to_first_token(), totals.finished);
  view.latency.tbt = milliseconds(recorder.recent_inter_token_latency(), totals.finished);
  view.latency.e2e = milliseconds(recorder.recent_end_to_end(), totals.finished);
  view.counters.requests_finished = totals.finished;
  view.counters.requests_refused = totals.refused;
  view.counters.requests_cancelled = totals.cancelled;
  view.counters.preemptions = totals.preemptions;
  view.counters.prompt_tokens = totals.prompt_tokens;
  view.counters.cached_tokens = totals.cached_tokens;
  view.counters.generated_tokens = totals.generated_tokens;
  view.counters.transfers = totals.transfers;
  view.counters.transfer_bytes = totals.transfer_bytes;
  view.counters.transfer_failures = totals.transfer_failures;
  return http::to_json(view);
}

}  // namespace yolk::actors
