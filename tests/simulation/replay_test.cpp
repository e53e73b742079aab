#include "simulation/replay.hpp"

#include <doctest/doctest.h>

#include "core/random.hpp"
#include "scheduling/slo_admission.hpp"
#include "simulation/report.hpp"
#include "tests/simulation/trace_file.hpp"

using namespace yolk;
using namespace yolk::simulation;
using yolk::tests::trace_file;

namespace {

/// Conversations of several turns that all begin with block 0, some requests a second.
std::string some_conversations(std::uint64_t requests, std::uint64_t seed) {
  core::random_source random(seed);
  std::vector<std::vector<std::uint64_t>> open;
  std::uint64_t next_id = 1;
  std::string text;
  for (std::uint64_t i = 0; i < requests; ++i) {
    if (open.size() < 4 || random.below(3) == 0) open.push_back({0});
    auto& ids = open[open.size() - 1 - random.below(std::min<std::size_t>(open.size(), 4))];
    for (auto more = 1 + random.below(12); more > 0; --more) ids.push_back(next_id++);
    const auto length = ids.size() * 512 - random.below(511);
    text += "{\"timestamp\": " + std::to_string(i * 150) + ", \"input_length\": " + std::to_string(length) +
            ", \"output_length\": " + std::to_string(1 + random.below(60)) + ", \"hash_ids\": [";
    for (std::size_t k = 0; k < ids.size(); ++k) text += (k == 0 ? "" : ", ") + std::to_string(ids[k]);
    text += "]}\n";
  }
  return text;
}

cluster_description small_cluster() {
  auto described = read_cluster("8xA800-llama3-70b").value();
  described.nodes.erase(described.nodes.begin(), described.nodes.begin() + 6);  // 2 prefill
  described.nodes.resize(4);                                                    // 2 decode
  return described;
}

struct replayed {
  replay_result result;
  std::string json;
};

replayed run(const std::string& path, const cluster_description& cluster, const trace_options& options = {}) {
  auto trace = trace_reader::open(path, options);
  REQUIRE(trace.has_value());
  auto result = replay(**trace, cluster);
  REQUIRE(result.has_value());
  const std::string name = "trace";
  auto json = report_json({cluster, options, name, *result});
  return {std::move(result).value(), std::move(json)};
}

}  // namespace

TEST_CASE("every request is answered, prefixes are found again, and nothing is held at the end") {
  const trace_file file(some_conversations(120, 1));
  const auto done = run(file.path(), small_cluster());
  const auto& count = done.result.results->count();
  CHECK(count.arrived == 120);
  CHECK(count.finished == 120);
  CHECK(count.cached_tokens > 0);
  CHECK(count.cached_tokens % 512 == 0);
  CHECK(done.result.audit == "");
  CHECK(done.result.results->prefill_transfers.failures == 0);
  CHECK(done.result.results->ttft().quantile(0.5) > 0.068);
}

TEST_CASE("the same seed gives the same bytes, another seed others") {
  const trace_file file(some_conversations(60, 2));
  const trace_options options{.jitter_seconds = 3.0, .seed = 11};
  const auto first = run(file.path(), small_cluster(), options).json;
  CHECK(run(file.path(), small_cluster(), options).json == first);
  CHECK(run(file.path(), small_cluster(), {.jitter_seconds = 3.0, .seed = 12}).json != first);
}

TEST_CASE("twice the load waits longer") {
  const trace_file file(some_conversations(100, 3));
  const auto slow = run(file.path(), small_cluster(), {.speedup = 0.5});
  const auto fast = run(file.path(), small_cluster(), {.speedup = 2.0});
  CHECK(fast.result.results->ttft().mean() > 2 * slow.result.results->ttft().mean());
}

TEST_CASE("a request that no prompt was before takes the model's time, and the link's") {
  const trace_file file(
      R"({"timestamp": 0, "input_length": 8192, "output_length": 3, "hash_ids": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]})");
  const auto done = run(file.path(), small_cluster());
  const auto cluster = small_cluster();
  const scheduling::latency_model latency(cluster.nodes.front().latency);
  CHECK(done.result.results->ttft().largest() ==
        doctest::Approx(latency.prefill_seconds({.prompt_tokens = 8192})).epsilon(1e-6));
  CHECK(done.result.sent_bytes == 8192 * 327'680.0);
}

TEST_CASE("above the limits of admission requests are refused, and counted by cause") {
  auto cluster = small_cluster();
  cluster.policy.max_running = 4;
  cluster.policy.max_waiting = 4;
  const trace_file file(some_conversations(100, 4));
  const auto done = run(file.path(), cluster, {.speedup = 10.0});
  const auto& count = done.result.results->count();
  CHECK(count.refused > 0);
  CHECK(count.refused + count.finished == 100);
  CHECK(count.refused_after_first_token == 0);
  REQUIRE(done.result.results->causes().size() == 1);
  CHECK(done.result.audit == "");
}

TEST_CASE("every placement policy answers every request, and leaves nothing held") {
  const trace_file file(some_conversations(60, 7));
  for (const auto name : scheduling::placement_policy_names()) {
    CAPTURE(name);
    auto cluster = small_cluster();
    cluster.policy.placement = name;
    const auto done = run(file.path(), cluster, {.speedup = 2.0});
    CHECK(done.result.results->count().finished == 60);
    CHECK(done.result.audit == "");
  }
}

TEST_CASE("every admission rule refuses or answers; only the baseline refuses after a prefill") {
  const trace_file file(some_conversations(120, 8));
  for (const auto name : scheduling::admission_rule_names()) {
    CAPTURE(name);
    auto cluster = small_cluster();
    cluster.policy.admission = name;
    cluster.slo = {.ttft_seconds = 2.0, .tbt_seconds = 0.032};
    const auto done = run(file.path(), cluster, {.speedup = 4.0});
    const auto& count = done.result.results->count();
    CHECK(count.finished + count.refused == 120);
    CHECK((count.refused > 0) == (name != "none"));
    if (name != "baseline") CHECK(count.refused_after_first_token == 0);
    CHECK(done.result.audit == "");
  }
}

TEST_CASE("what one node computed is kept there, and pulled by another over the link") {
  // A long prompt, then many at once that begin with it: one node cannot take them all.
  const auto line = [](int seconds, int own) {
    std::string text = "{\"timestamp\": " + std::to_string(seconds * 1000) +
                       ", \"input_length\": 20480, \"output_length\": 2, \"hash_ids\": [";
    for (int id = 0; id < 40; ++id) text += (id == 0 ? "" : ", ") + std::to_string(id < 30 ? id : own + id);
    return text + "]}\n";
  };
  std::string text = line(0, 0);
  for (int i = 1; i <= 12; ++i) text += line(60, 100 * i);
  const trace_file file(text);
  auto cluster = small_cluster();
  cluster.policy.placement = "mooncake";
  const auto done = run(file.path(), cluster);
  const auto& results = *done.result.results;
  CHECK(results.count().cached_tokens == 12 * 30 * 512);
  CHECK(results.prefill_transfers.get_bytes >= 30 * 512 * 327'680ull);
  // Kept on both nodes now, and each decode worker was sent whole prompts: the rest of what went between
  // nodes.
  CHECK(done.result.sent_bytes ==
        static_cast<double>(results.prefill_transfers.put_bytes + results.prefill_transfers.get_bytes +
                            results.shard_transfers.get_bytes) -
            done.result.local_bytes);
}

TEST_CASE("a decode worker that runs out of blocks preempts, and all requests end all the same") {
  auto cluster = small_cluster();
  for (auto& node : cluster.nodes)
    if (node.role == node_role::decode) node.kv_tokens = 40 * 512;
  std::string text;
  for (int i = 0; i < 24; ++i)
    text += "{\"timestamp\": 0, \"input_length\": 3000, \"output_length\": 1500, \"hash_ids\": [" +
            std::to_string(100 + 6 * i) + ",1,2,3,4,5]}\n";
  const trace_file file(text);
  const auto done = run(file.path(), cluster);
  CHECK(done.result.results->count().finished == 24);
  CHECK(done.result.results->count().generated_tokens == 24 * 1500);
  CHECK(done.result.audit == "");
}

TEST_CASE("a broken line ends the replay with its place") {
  const trace_file file(some_conversations(3, 5) + "{\n");
  auto trace = trace_reader::open(file.path(), {});
  const auto result = replay(**trace, small_cluster());
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().message.find(":4: ") != std::string::npos);
}

TEST_CASE("the page stands alone, is the same for the same replay, and escapes what comes from files") {
  const trace_file file(some_conversations(40, 6));
  auto cluster = small_cluster();
  cluster.name = "<b>\"&'";
  const auto done = run(file.path(), cluster);
  const std::string name = "a<script>";
  const trace_options options;
  const auto page = report_page({cluster, options, name, done.result});
  CHECK(page == report_page({cluster, options, name, done.result}));
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("http") == std::string::npos);
  CHECK(page.find("<b>\"") == std::string::npos);
  CHECK(page.find("a&lt;script&gt;") != std::string::npos);
  std::size_t drawings = 0;
  for (auto at = page.find("<polyline"); at != std::string::npos; at = page.find("<polyline", at + 1))
    ++drawings;
  CHECK(drawings == 9);
}
