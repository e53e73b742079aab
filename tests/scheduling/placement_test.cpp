#include "scheduling/placement.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "scheduling/prefill_plan.hpp"

using namespace yolk;
using namespace yolk::scheduling;

namespace {

constexpr core::worker_id a{1};
constexpr core::worker_id b{2};
constexpr core::worker_id c{3};
constexpr core::worker_id shard{9};
constexpr core::worker_id other_shard{8};

/// 1 ms a computed token; 0.01 ms a token over any link; decode by context alone.
latency_coefficients simple() {
  latency_coefficients coefficients;
  coefficients.prefill.per_token = 1e-3;
  coefficients.decode.per_context_token = 1e-6;
  for (auto& link : coefficients.links) link.bytes_per_second = 1e5;
  return coefficients;
}

const std::vector<decode_candidate> one_decode{{.worker = c, .free_tokens = 1'000'000}};

/// A cluster whose parts can be named one by one.
struct cluster {
  std::vector<prefill_candidate> prefill;
  std::vector<prefix_holder> holders = {};
  std::vector<decode_candidate> decode = one_decode;
  corrected_model latency{simple(), {}};

  [[nodiscard]] cluster_view view() const {
    return {.prefill = prefill, .holders = holders, .decode = decode, .latency = &latency};
  }
};

std::unique_ptr<placement_policy> policy(std::string_view name, const placement_options& options = {}) {
  return std::move(make_placement_policy(name, options)).value();
}

placement placed(std::string_view name, std::uint32_t prompt_tokens, const cluster& cluster) {
  const auto made = policy(name)->place({.prompt_tokens = prompt_tokens, .may_hold = false}, cluster.view());
  REQUIRE(made);
  return *made;
}

core::worker_id prefill_of(std::uint32_t prompt_tokens, const cluster& cluster) {
  return placed("yolk", prompt_tokens, cluster).prefill;
}

core::worker_id decode_of(std::uint32_t prompt_tokens, const std::vector<decode_candidate>& candidates) {
  return placed("yolk", prompt_tokens, {.prefill = {{.worker = a}}, .decode = candidates}).decode;
}

}  // namespace

TEST_CASE("without candidates no policy places") {
  for (const auto name : placement_policy_names()) {
    CAPTURE(name);
    const auto policy = ::policy(name);
    CHECK(policy->name() == name);
    CHECK_FALSE(policy->place({.prompt_tokens = 100}, cluster{.prefill = {}}.view()));
    CHECK_FALSE(
        policy->place({.prompt_tokens = 100}, cluster{.prefill = {{.worker = a}}, .decode = {}}.view()));
  }
  const auto unknown = make_placement_policy("best");
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == errc::unknown_name);
  CHECK(std::ranges::count(placement_policy_names(), default_placement_policy) == 1);
}

TEST_CASE("the longest prefix wins while its queue is short, and loses when computing anew is sooner") {
  CHECK(prefill_of(1000, {.prefill = {{.worker = a}, {.worker = b, .device_cached_tokens = 900}}}) == b);
  CHECK(prefill_of(1000, {.prefill = {{.worker = a},
                                      {.worker = b, .queue_seconds = 0.899, .device_cached_tokens = 900}}}) ==
        b);
  CHECK(prefill_of(1000, {.prefill = {{.worker = a},
                                      {.worker = b, .queue_seconds = 0.901, .device_cached_tokens = 900}}}) ==
        a);
}

TEST_CASE("a prefix that every prompt shares does not send every request to one worker") {
  // All hold the shared first block; one of them a bit more, and a queue.
  const cluster shared{.prefill = {{.worker = a, .queue_seconds = 8.192, .device_cached_tokens = 528},
                                   {.worker = b, .device_cached_tokens = 512}}};
  CHECK(prefill_of(4096, shared) == b);
  CHECK(placed("longest_prefix", 4096, shared).prefill == a);
}

TEST_CASE("a prefix in a shard counts with the cost of pulling it") {
  // a: 900 pulled at 1e-5, 100 computed = 109 ms; b: 105 computed = 105 ms. The shard is a's alone.
  const cluster apart{
      .prefill = {{.worker = a}, {.worker = b, .at = {.node = 1}, .device_cached_tokens = 895}},
      .holders = {{.holder = shard, .cached_tokens = 900}}};
  CHECK(prefill_of(1000, apart) == b);
  const auto pulled = placed(
      "yolk", 1000, {.prefill = {{.worker = a}}, .holders = {{.holder = shard, .cached_tokens = 900}}});
  CHECK(pulled.predicted_ttft_seconds == doctest::Approx(0.109));
  CHECK(pulled.source == shard);
  CHECK(pulled.source_tokens == 900);
  CHECK(pulled.reused_tokens == 900);
}

TEST_CASE("a pull that runs while the queue is worked off costs nothing") {
  const auto pulled = placed("yolk", 1000,
                             {.prefill = {{.worker = a, .queue_seconds = 0.5}},
                              .holders = {{.holder = shard, .cached_tokens = 900}}});
  CHECK(pulled.predicted_ttft_seconds == doctest::Approx(0.6));
}

TEST_CASE("a pull that costs more than computing is not made") {
  cluster slow_link{.prefill = {{.worker = a, .device_cached_tokens = 100}},
                    .holders = {{.holder = shard, .cached_tokens = 900}}};
  auto coefficients = simple();
  for (auto& link : coefficients.links) link.bytes_per_second = 200;
  slow_link.latency = corrected_model(coefficients, {});
  const auto computed = placed("yolk", 1000, slow_link);
  CHECK_FALSE(computed.source);
  CHECK(computed.source_tokens == 0);
  CHECK(computed.predicted_ttft_seconds == doctest::Approx(0.9));
}

TEST_CASE("a holder from which many pull is left for one that has as much and is idle") {
  cluster two{.prefill = {{.worker = a}},
              .holders = {{.holder = other_shard, .at = {.node = 1}, .cached_tokens = 900, .transfers = 5},
                          {.holder = shard, .at = {.node = 2}, .cached_tokens = 900}}};
  CHECK(placed("yolk", 1000, two).source == shard);
  CHECK(placed("mooncake", 1000, two).source == shard);
  two.holders[0].transfers = 0;
  CHECK(placed("yolk", 1000, two).source == other_shard);  // a tie: the lowest id
}

TEST_CASE("a cached prompt still computes its last token") {
  for (const std::uint32_t prompt : {1u, 1000u}) {
    const cluster whole{.prefill = {{.worker = a, .device_cached_tokens = 1000}}};
    CHECK(placed("yolk", prompt, whole).predicted_ttft_seconds == doctest::Approx(0.001));
    const cluster more{.prefill = {{.worker = a, .device_cached_tokens = 5000}},
                       .holders = {{.holder = shard, .cached_tokens = 9000}}};
    CHECK(placed("yolk", prompt, more).predicted_ttft_seconds == doctest::Approx(0.001));
    CHECK(placed("mooncake", prompt, more).reused_tokens == prompt - 1);
  }
  CHECK(placed("yolk", 0, {.prefill = {{.worker = a, .device_cached_tokens = 5}}}).predicted_ttft_seconds ==
        0.0);
}

TEST_CASE("ties go to the lowest id, wherever it stands in the list") {
  for (const auto name : placement_policy_names()) {
    if (name == "random") continue;
    CAPTURE(name);
    CHECK(placed(name, 100, {.prefill = {{.worker = c}, {.worker = a}, {.worker = b}}}).prefill == a);
  }
  CHECK(decode_of(100, {{.worker = c, .free_tokens = 999},
                        {.worker = a, .free_tokens = 500},
                        {.worker = b, .free_tokens = 999}}) == a);
}

TEST_CASE("decode goes to the least context among those with room") {
  CHECK(decode_of(100, {{.worker = a, .context_tokens = 500, .free_tokens = 1000},
                        {.worker = b, .context_tokens = 400, .free_tokens = 1000},
                        {.worker = c, .context_tokens = 10, .free_tokens = 100}}) == b);
  // Exactly the prompt and one token: enough.
  CHECK(decode_of(100, {{.worker = a, .context_tokens = 500, .free_tokens = 1000},
                        {.worker = c, .context_tokens = 10, .free_tokens = 101}}) == c);
}

TEST_CASE("decode weighs the number of sequences against their context, as the device does") {
  auto coefficients = simple();
  coefficients.decode.per_sequence = 1e-3;  // a sequence costs as much as 1,000 tokens of context
  const cluster two{.prefill = {{.worker = a}},
                    .decode = {{.worker = a, .sequences = 10, .context_tokens = 1000, .free_tokens = 9000},
                               {.worker = b, .sequences = 1, .context_tokens = 9000, .free_tokens = 9000}},
                    .latency = corrected_model(coefficients, {})};
  const auto made = placed("yolk", 100, two);
  CHECK(made.decode == b);
  // 2 sequences, of which the own one has its prompt and half of 256 tokens.
  CHECK(made.predicted_tbt_seconds == doctest::Approx(1e-3 + 1e-6 * (9000 + 100 + 128)));
}

TEST_CASE("when no decode worker has room the least loaded gets the request all the same") {
  CHECK(decode_of(100, {{.worker = a, .context_tokens = 500, .free_tokens = 50},
                        {.worker = b, .context_tokens = 400, .free_tokens = 0}}) == b);
}

TEST_CASE("huge queues and prompts neither overflow nor wrap to the front") {
  constexpr auto huge = std::numeric_limits<std::uint64_t>::max();
  constexpr auto longest = std::numeric_limits<std::uint32_t>::max();
  CHECK(prefill_of(longest, {.prefill = {{.worker = a, .queue_seconds = 1e300},
                                         {.worker = b, .queue_seconds = 1}}}) == b);
  CHECK(decode_of(longest, {{.worker = a, .context_tokens = huge, .free_tokens = huge},
                            {.worker = b, .context_tokens = huge / 2, .free_tokens = huge}}) == b);
  // 2^32 - 1 prompt tokens and one more do not wrap to "0 tokens fit anywhere".
  CHECK(decode_of(longest, {{.worker = a, .context_tokens = 1, .free_tokens = 5},
                            {.worker = b, .context_tokens = 9, .free_tokens = huge}}) == b);
}

TEST_CASE("every choice is one of the candidates, and the order of the list does not matter") {
  const std::uint64_t seed = 99;
  MESSAGE("seed ", seed);
  for (const auto name : placement_policy_names()) {
    CAPTURE(name);
    core::random_source random(seed);
    const auto forward = policy(name, {.seed = seed});
    const auto backward = policy(name, {.seed = seed});
    for (int round = 0; round < 500; ++round) {
      CAPTURE(round);
      cluster made{.prefill = {}};
      for (std::uint32_t id = 0; id <= random.below(6); ++id)
        made.prefill.push_back({.worker = {id},
                                .at = {.node = static_cast<std::uint32_t>(random.below(3))},
                                .queue_seconds = 0.5 * static_cast<double>(random.below(3)),
                                .queued_requests = static_cast<std::uint32_t>(random.below(4)),
                                .device_cached_tokens = static_cast<std::uint32_t>(random.below(3) * 512)});
      for (std::uint32_t id = 0; id < random.below(8); ++id)
        made.holders.push_back({.holder = {100 + id},
                                .at = {.node = static_cast<std::uint32_t>(random.below(3))},
                                .cached_tokens = static_cast<std::uint32_t>(random.below(5) * 256),
                                .transfers = static_cast<std::uint32_t>(random.below(3))});
      const std::uint64_t leaf = random.below(5);
      const placement_request request{.number = static_cast<std::uint64_t>(round),
                                      .prompt_tokens = 1000,
                                      .now_seconds = 0.1 * round,
                                      .prefix_ids = {&leaf, 1},
                                      .may_hold = false};
      const auto one = forward->place(request, made.view());
      REQUIRE(one);
      CHECK(std::ranges::count(made.prefill, one->prefill, &prefill_candidate::worker) == 1);
      CHECK(one->reused_tokens < request.prompt_tokens);
      CHECK(one->source.has_value() == (one->source_tokens > 0));
      std::ranges::reverse(made.prefill);
      std::ranges::reverse(made.holders);
      const auto other = backward->place(request, made.view());
      CHECK(other->prefill == one->prefill);
      CHECK(other->source == one->source);
      CHECK(other->predicted_ttft_seconds == one->predicted_ttft_seconds);
    }
  }
}

TEST_CASE("a short list of holders contains the best one for every candidate on another node") {
  const std::uint64_t seed = 3;
  MESSAGE("seed ", seed);
  core::random_source random(seed);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    cluster made{.prefill = {{.worker = a, .queue_seconds = 0.002 * static_cast<double>(random.below(4))}}};
    for (std::uint32_t id = 0; id < random.below(12); ++id)
      made.holders.push_back({.holder = {100 + id},
                              .at = {.node = 1 + id},
                              .cached_tokens = static_cast<std::uint32_t>(random.below(4) * 256),
                              .transfers = static_cast<std::uint32_t>(random.below(4))});
    const auto view = made.view();
    const remote_holders remote(view);
    CHECK(remote.list().size() <= remote_holders::capacity);
    const auto plan = plan_cheapest(1000, made.prefill[0], view, remote);
    const double found = overlapped_ttft_seconds(made.prefill[0], plan);
    for (const auto& holder : made.holders)
      CHECK(found <=
            overlapped_ttft_seconds(made.prefill[0], plan_from(1000, made.prefill[0], &holder, view)));
  }
}

TEST_CASE("random is uniform, and a function of seed and number") {
  cluster four{.prefill = {{.worker = {0}}, {.worker = {1}}, {.worker = {2}}, {.worker = {3}}}};
  const auto policy = ::policy("random", {.seed = 7});
  const auto again = ::policy("random", {.seed = 7});
  std::map<core::worker_id, int> counts;
  for (std::uint64_t number = 0; number < 4000; ++number)
    ++counts[policy->place({.number = number, .prompt_tokens = 10}, four.view())->prefill];
  for (const auto& [worker, count] : counts) CHECK(std::abs(count - 1000) < 120);
  CHECK(counts.size() == 4);
  for (const std::uint64_t number : {5u, 3u, 3u, 1u})
    CHECK(policy->place({.number = number, .prompt_tokens = 10}, four.view())->prefill ==
          again->place({.number = number, .prompt_tokens = 10}, four.view())->prefill);
}

TEST_CASE("round robin goes on after the worker it took last, also when workers leave") {
  const auto policy = ::policy("round_robin");
  const auto next = [&](const cluster& cluster) {
    return policy->place({.prompt_tokens = 10}, cluster.view())->prefill;
  };
  const cluster three{.prefill = {{.worker = c}, {.worker = a}, {.worker = b}}};
  CHECK(next(three) == a);
  CHECK(next(three) == b);
  CHECK(next({.prefill = {{.worker = c}, {.worker = a}}}) == c);
  CHECK(next(three) == a);
}

TEST_CASE("cache-aware placement never pulls from another node") {
  const cluster apart{.prefill = {{.worker = a}, {.worker = b, .at = {.node = 1}, .queue_seconds = 0.95}},
                      .holders = {{.holder = shard, .at = {.node = 1}, .cached_tokens = 900}}};
  const auto local = placed("cache_aware", 1000, apart);
  CHECK(local.prefill == a);
  CHECK_FALSE(local.source);
  const auto global = placed("mooncake", 1000, apart);
  CHECK(global.prefill == a);
  CHECK(global.source == shard);
}

TEST_CASE("Algorithm 1 recomputes a gap within the threshold and sums transfer and queue") {
  const cluster two{.prefill = {{.worker = a, .queue_seconds = 0.5, .device_cached_tokens = 600}},
                    .holders = {{.holder = shard, .at = {.node = 1}, .cached_tokens = 900}}};
  const auto place = [&](double threshold) {
    return *policy("mooncake", {.balancing_threshold = threshold})
                ->place({.prompt_tokens = 1000}, two.view());
  };
  CHECK(place(1.4).source == shard);
  CHECK(place(1.4).predicted_ttft_seconds == doctest::Approx(0.5 + 0.003 + 0.1));
  CHECK_FALSE(place(1.5).source);  // equal: no transfer
  CHECK(place(1.5).predicted_ttft_seconds == doctest::Approx(0.5 + 0.4));
  // Nothing of its own: the ratio is infinite.
  const cluster cold{.prefill = {{.worker = a}},
                     .holders = {{.holder = shard, .at = {.node = 1}, .cached_tokens = 16}}};
  CHECK(
      policy("mooncake", {.balancing_threshold = 1e9})->place({.prompt_tokens = 100}, cold.view())->source ==
      shard);
}

TEST_CASE("E2 exploits a prefix longer than the rest, and explores by load otherwise") {
  const auto policy = ::policy("preble");
  const auto place = [&](std::uint32_t prompt, const cluster& cluster, double now) {
    return policy->place({.prompt_tokens = prompt, .now_seconds = now}, cluster.view())->prefill;
  };
  const cluster hit{
      .prefill = {{.worker = a}, {.worker = b, .queue_seconds = 9, .device_cached_tokens = 600}}};
  CHECK(place(1000, hit, 0) == b);  // 600 > 400, whatever the queue: b carries 0.4 s of load
  CHECK(place(1300, hit, 0) == b);  // 600 < 700, explores: 0.4 + 0.7 s against 1.3 s
  CHECK(place(1300, hit, 0) == a);  // 1.1 + 0.7 s against 1.3 s
  // a now carries 1.3 s, b 1.1 s, for as long as the window lasts.
  const cluster none{.prefill = {{.worker = a}, {.worker = b}}};
  CHECK(place(100, none, 1) == b);
  CHECK(place(100, none, 1000) == a);
}

TEST_CASE("E2 redirects exploitation when one worker carries much more than another") {
  const auto run = [](double ratio) {
    const auto policy = ::policy("preble", {.rebalance_ratio = ratio});
    const cluster hot{.prefill = {{.worker = a, .device_cached_tokens = 900}, {.worker = b}}};
    int on_a = 0;
    for (int i = 0; i < 300; ++i)
      on_a +=
          policy->place({.prompt_tokens = 1000, .now_seconds = 0.1 * i}, hot.view())->prefill == a ? 1 : 0;
    return on_a;
  };
  CHECK(run(1e9) >= 299);  // one, when the other carries nothing at all
  CHECK(run(1.5) < 285);
  CHECK(run(1.5) >= 100);  // armed after 50 requests a worker
}

TEST_CASE("Dynamo's cost counts a block in DRAM as three quarters of one on the device") {
  const cluster tiers{
      .prefill = {{.worker = a, .at = {.node = 1}}, {.worker = b, .device_cached_tokens = 640}},
      .holders = {{.holder = shard, .at = {.node = 1}, .cached_tokens = 800}}};
  CHECK(placed("dynamo", 1000, tiers).prefill == b);  // 400 against 360
  cluster queued = tiers;
  queued.prefill[1].queued_tokens = 100;
  CHECK(placed("dynamo", 1000, queued).prefill == a);
  // With a temperature all get some.
  const auto policy = ::policy("dynamo", {.seed = 1, .temperature = 1.0});
  std::set<core::worker_id> seen;
  for (std::uint64_t number = 0; number < 100; ++number)
    seen.insert(policy->place({.number = number, .prompt_tokens = 1000}, tiers.view())->prefill);
  CHECK(seen.size() == 2);
}

TEST_CASE("llm-d scores the matched share twice as high as the queue, and spreads cold prompts") {
  const cluster hit{
      .prefill = {{.worker = a}, {.worker = b, .queued_requests = 4, .device_cached_tokens = 600}}};
  CHECK(placed("llm_d", 1000, hit).prefill == b);  // 1.2 against 1
  CHECK(placed("llm_d", 1300, hit).prefill == a);  // 0.92 against 1
  const auto policy = ::policy("llm_d");
  const cluster cold{.prefill = {{.worker = a}, {.worker = b}}};
  CHECK(policy->place({.prompt_tokens = 10}, cold.view())->prefill == a);
  CHECK(policy->place({.prompt_tokens = 10}, cold.view())->prefill == b);
  CHECK(policy->place({.prompt_tokens = 10}, cold.view())->prefill == a);
}

TEST_CASE("while all workers have long queues a prompt is held, and goes to the first that has not") {
  const auto policy = ::policy("yolk", {.hold_seconds = 1.0});
  cluster two{.prefill = {{.worker = a, .queue_seconds = 1.5}, {.worker = b, .queue_seconds = 1.1}}};
  CHECK_FALSE(policy->place({.prompt_tokens = 100}, two.view()));
  CHECK(policy->place({.prompt_tokens = 100, .may_hold = false}, two.view())->prefill == b);
  two.prefill[1].queue_seconds = 1.0;
  CHECK(policy->place({.prompt_tokens = 100}, two.view())->prefill == b);
}

TEST_CASE("short prompts go before long ones that came a little earlier, and not for ever") {
  const placement_options options{.short_first_weight = 2.0, .short_first_seconds = 4.0};
  CHECK(hold_key(1.0, 0.5, options) < hold_key(0.0, 2.0, options));
  CHECK(hold_key(5.0, 0.5, options) > hold_key(0.0, 2.0, options));
  CHECK(hold_key(4.5, 0.0, options) > hold_key(0.0, 1000.0, options));
  CHECK(hold_key(1.0, 0.5, {.short_first_weight = 0.0}) > hold_key(0.0, 2.0, {.short_first_weight = 0.0}));
}
