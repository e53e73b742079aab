#include "http/cluster_view.hpp"

#include "http/json_writer.hpp"

namespace yolk::http {
namespace {

void write(json_writer& json, const actor_view& actor) {
  json.begin_object();
  json.key("name").string(actor.name);
  json.key("kind").string(actor.kind);
  json.key("state").string(actor.state);
  json.key("device").string(actor.device);
  // A string: incarnations use all 64 bits, a JavaScript number has 53.
  json.key("incarnation").string(std::to_string(actor.incarnation));
  json.key("restarts").count(actor.restarts);
  json.key("queue").count(actor.queue);
  json.key("running").count(actor.running);
  json.key("blocks_total").count(actor.blocks_total);
  json.key("blocks_used").count(actor.blocks_used);
  json.key("blocks_cached").count(actor.blocks_cached);
  json.key("tokens_per_second").number(actor.tokens_per_second);
  json.end_object();
}

void write(json_writer& json, const link_view& link) {
  json.begin_object();
  json.key("from").string(link.from);
  json.key("to").string(link.to);
  json.key("transfers").count(link.transfers);
  json.key("bytes").count(link.bytes);
  json.end_object();
}

void write(json_writer& json, const tier_view& tier) {
  json.begin_object();
  json.key("name").string(tier.name);
  json.key("owner").string(tier.owner);
  json.key("bytes_used").count(tier.bytes_used);
  json.key("bytes_limit").count(tier.bytes_limit);
  json.key("hit_tokens").count(tier.hit_tokens);
  json.key("miss_tokens").count(tier.miss_tokens);
  json.key("evicted_blocks").count(tier.evicted_blocks);
  json.end_object();
}

void write(json_writer& json, const quantiles_view& quantiles) {
  json.begin_object();
  json.key("p50_ms").number(quantiles.p50_ms);
  json.key("p90_ms").number(quantiles.p90_ms);
  json.key("p99_ms").number(quantiles.p99_ms);
  json.key("count").count(quantiles.count);
  json.end_object();
}

void write(json_writer& json, const counters_view& counters) {
  json.begin_object();
  json.key("requests_running").count(counters.requests_running);
  json.key("requests_waiting").count(counters.requests_waiting);
  json.key("requests_finished").count(counters.requests_finished);
  json.key("requests_refused").count(counters.requests_refused);
  json.key("requests_cancelled").count(counters.requests_cancelled);
  json.key("preemptions").count(counters.preemptions);
  json.key("prompt_tokens").count(counters.prompt_tokens);
  json.key("cached_tokens").count(counters.cached_tokens);
  json.key("generated_tokens").count(counters.generated_tokens);
  json.key("transfers").count(counters.transfers);
  json.key("transfer_bytes").count(counters.transfer_bytes);
  json.key("transfer_failures").count(counters.transfer_failures);
  json.end_object();
}

template <class View>
void write_list(json_writer& json, std::string_view name, const std::vector<View>& views) {
  json.key(name).begin_array();
  for (const View& view : views) write(json, view);
  json.end_array();
}

}  // namespace

std::string to_json(const cluster_view& view) {
  json_writer json;
  json.begin_object();
  json.key("model").string(view.model);
  json.key("version").string(view.version);
  json.key("url").string(view.url);
  json.key("device").string(view.device);
  json.key("uptime_seconds").number(view.uptime_seconds);
  json.key("max_model_len").count(view.max_model_len);
  json.key("block_tokens").count(view.block_tokens);
  write_list(json, "actors", view.actors);
  write_list(json, "links", view.links);
  write_list(json, "tiers", view.tiers);
  json.key("latency").begin_object();
  write(json.key("ttft"), view.latency.ttft);
  write(json.key("tbt"), view.latency.tbt);
  write(json.key("e2e"), view.latency.e2e);
  json.end_object();
  write(json.key("counters"), view.counters);
  json.end_object();
  return json.take();
}

}  // namespace yolk::http
