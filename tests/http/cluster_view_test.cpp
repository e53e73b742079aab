#include "http/cluster_view.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

using namespace yolk::http;
using nlohmann::json;

TEST_CASE("the cluster's picture has every field, under its own name") {
  cluster_view view;
  view.model = "m";
  view.version = "0.1.0";
  view.url = "http://127.0.0.1:8000";
  view.device = "host";
  view.uptime_seconds = 1.5;
  view.max_model_len = 2048;
  view.block_tokens = 16;
  view.actors = {
      {"decode_worker 0", "decode_worker", "ready", "host", ~std::uint64_t{0}, 1, 2, 3, 10, 4, 5, 6.5}};
  view.links = {{"prefill_worker 0", "decode_worker 0", 7, 8}};
  view.tiers = {{"dram", "cache_shard 0", 1, 2, 3, 4, 5}};
  view.latency = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
  view.counters = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  CHECK(json::parse(to_json(view)) == json::parse(R"({
    "model": "m", "version": "0.1.0", "url": "http://127.0.0.1:8000", "device": "host", "uptime_seconds": 1.5,
    "max_model_len": 2048, "block_tokens": 16,
    "actors": [{"name": "decode_worker 0", "kind": "decode_worker", "state": "ready", "device": "host",
                "incarnation": "18446744073709551615", "restarts": 1, "queue": 2, "running": 3, "blocks_total": 10,
                "blocks_used": 4, "blocks_cached": 5, "tokens_per_second": 6.5}],
    "links": [{"from": "prefill_worker 0", "to": "decode_worker 0", "transfers": 7, "bytes": 8}],
    "tiers": [{"name": "dram", "owner": "cache_shard 0", "bytes_used": 1, "bytes_limit": 2, "hit_tokens": 3,
               "miss_tokens": 4, "evicted_blocks": 5}],
    "latency": {"ttft": {"p50_ms": 1.0, "p90_ms": 2.0, "p99_ms": 3.0, "count": 4},
                "tbt": {"p50_ms": 5.0, "p90_ms": 6.0, "p99_ms": 7.0, "count": 8},
                "e2e": {"p50_ms": 9.0, "p90_ms": 10.0, "p99_ms": 11.0, "count": 12}},
    "counters": {"requests_running": 1, "requests_waiting": 2, "requests_finished": 3, "requests_refused": 4,
                 "requests_cancelled": 5, "preemptions": 6, "prompt_tokens": 7, "cached_tokens": 8, "generated_tokens": 9,
                 "transfers": 10, "transfer_bytes": 11, "transfer_failures": 12}})"));
}

TEST_CASE("a rate that is no number does not break the picture") {
  cluster_view view;
  view.actors.resize(1);
  view.actors[0].tokens_per_second = std::numeric_limits<double>::quiet_NaN();
  CHECK(json::parse(to_json(view))["actors"][0]["tokens_per_second"].is_null());
}
