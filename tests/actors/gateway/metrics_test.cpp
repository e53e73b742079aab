#include "actors/metrics.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using yolk::actors::metrics;
using namespace std::chrono_literals;

namespace {

bool exposes(const metrics& recorder, const std::string& line) {
  return recorder.expose().find(line) != std::string::npos;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("what is recorded is exposed under the documented names") {
  metrics recorder("m");
  recorder.request_ended(metrics::outcome::stop, 700ms);
  recorder.time_to_first_token(30ms);
  recorder.inter_token_latency(20ms);
  recorder.prompt_tokens(100, 64);
  recorder.generated_tokens(5);
  recorder.queue_time(1s);
  recorder.preemption();
  recorder.step(metrics::step_kind::prefill, 512, 40ms);
  recorder.transfer(metrics::transfer_path::prefill_to_decode, 4096, 1ms);
  recorder.transfer_failed(metrics::transfer_path::shard_to_prefill);
  recorder.running_requests(3);
  recorder.waiting_requests(2);
  recorder.kv_usage("device", "decode", 1, 0.25);
  recorder.kv_usage("device", "prefill", 0, 0.75);
  recorder.kv_usage("dram", "cache", 0, 0.9);
  recorder.actor_restarted("conductor");
  CHECK(exposes(recorder, R"(yolk_requests_total{model_name="m",outcome="stop"} 1)"));
  CHECK(exposes(recorder, R"(yolk_request_latency_seconds_bucket{model_name="m",le="0.5"} 0)"));
  CHECK(exposes(recorder, R"(yolk_request_latency_seconds_bucket{model_name="m",le="0.8"} 1)"));
  CHECK(exposes(recorder, R"(yolk_time_to_first_token_seconds_bucket{model_name="m",le="0.02"} 0)"));
  CHECK(exposes(recorder, R"(yolk_time_to_first_token_seconds_bucket{model_name="m",le="0.04"} 1)"));
  CHECK(exposes(recorder, R"(yolk_inter_token_latency_seconds_bucket{model_name="m",le="0.025"} 1)"));
  CHECK(exposes(recorder, R"(yolk_prompt_tokens_total{model_name="m"} 100)"));
  CHECK(exposes(recorder, R"(yolk_prompt_tokens_cached_total{model_name="m"} 64)"));
  CHECK(exposes(recorder, R"(yolk_generation_tokens_total{model_name="m"} 5)"));
  CHECK(exposes(recorder, R"(yolk_request_queue_time_seconds_count{model_name="m"} 1)"));
  CHECK(exposes(recorder, R"(yolk_preemptions_total{model_name="m"} 1)"));
  CHECK(exposes(recorder, R"(yolk_step_tokens_bucket{model_name="m",kind="prefill",le="512"} 1)"));
  CHECK(exposes(recorder, R"(yolk_transfer_bytes_total{model_name="m",path="prefill_to_decode"} 4096)"));
  CHECK(exposes(recorder, R"(yolk_transfer_failures_total{model_name="m",path="shard_to_prefill"} 1)"));
  CHECK(exposes(recorder, R"(yolk_requests_running{model_name="m"} 3)"));
  CHECK(exposes(recorder, R"(yolk_requests_waiting{model_name="m"} 2)"));
  CHECK(exposes(recorder, R"(yolk_kv_usage_ratio{model_name="m",id="1",owner="decode",tier="device"} 0.25)"));
  CHECK(exposes(recorder, R"(yolk_kv_cache_usage_ratio{model_name="m"} 0.75)"));
  CHECK(exposes(recorder, R"(yolk_actor_restarts_total{model_name="m",kind="conductor"} 1)"));
}

TEST_CASE("labels take no values that others choose") {
  metrics recorder("m");
  for (int i = 0; i < 3000; ++i) {
    recorder.leg_resumed("reason " + std::to_string(i));
    recorder.actor_restarted("kind " + std::to_string(i));
    recorder.kv_usage("tier " + std::to_string(i), "owner " + std::to_string(i),
                      static_cast<std::uint32_t>(i) * 1000, 0.5);
  }
  const std::string text = recorder.expose();
  CHECK(count_of(text, "\nyolk_legs_resumed_total{") == 6);
  CHECK(count_of(text, "\nyolk_actor_restarts_total{") == 1);
  CHECK(count_of(text, "\nyolk_kv_usage_ratio{") == 264);  // ids up to 262,143, and one for the rest
  CHECK(exposes(recorder, R"(yolk_legs_resumed_total{model_name="m",reason="other"} 3000)"));
}

TEST_CASE("quantiles are those of the last thousand records") {
  metrics recorder("m");
  CHECK(recorder.recent_time_to_first_token().p99 == 0);
  for (int i = 0; i < 5000; ++i) recorder.time_to_first_token(100s);
  for (int i = 1; i <= 1000; ++i) recorder.time_to_first_token(std::chrono::milliseconds(i));
  const auto recent = recorder.recent_time_to_first_token();
  CHECK(recent.p50 == doctest::Approx(0.5));
  CHECK(recent.p90 == doctest::Approx(0.9));
  CHECK(recent.p99 == doctest::Approx(0.99));
  recorder.inter_token_latency(3s);
  CHECK(recorder.recent_inter_token_latency().p50 == doctest::Approx(3.0));
  CHECK(recorder.recent_end_to_end().p50 == 0);
}

TEST_CASE("only whole answers count for how long an answer takes") {
  metrics recorder("m");
  recorder.request_ended(metrics::outcome::refused, 1ms);
  recorder.request_ended(metrics::outcome::cancelled, 1ms);
  recorder.request_ended(metrics::outcome::failed, 1ms);
  recorder.request_ended(metrics::outcome::invalid, 1ms);
  CHECK(recorder.recent_end_to_end().p50 == 0);
  recorder.request_ended(metrics::outcome::length, 2s);
  CHECK(recorder.recent_end_to_end().p50 == doctest::Approx(2.0));
  const metrics::totals totals = recorder.count();
  CHECK(totals.finished == 1);
  CHECK(totals.refused == 1);
  CHECK(totals.cancelled == 1);
  CHECK(totals.failed == 1);
}

TEST_CASE("totals add up over all ways and reasons") {
  metrics recorder("m");
  recorder.leg_resumed("workerLost");
  recorder.leg_resumed("preempted");
  recorder.leg_resumed("something else");
  recorder.transfer(metrics::transfer_path::prefill_to_decode, 10, 1ms);
  recorder.transfer(metrics::transfer_path::worker_to_shard, 5, 1ms);
  recorder.transfer_failed(metrics::transfer_path::worker_to_shard);
  const metrics::totals totals = recorder.count();
  CHECK(totals.resumed == 3);
  CHECK(totals.transfers == 2);
  CHECK(totals.transfer_bytes == 15);
  CHECK(totals.transfer_failures == 1);
}
