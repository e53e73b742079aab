// The claims of docs/scheduling.md about placement, by sign, on a small trace that is made up.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "tests/scheduling/prefill_replay.hpp"

using namespace yolk;
using namespace yolk::tests;

namespace {

replay_outcome replay(std::string_view policy, const replay_options& options) {
  return replay_prefill(made_trace(options.seed, 2500), policy, options);
}

/// Busy, but not beyond what the best can serve.
constexpr replay_options busy{.nodes = 8, .speed_up = 2.3, .cache_blocks = 3000, .seed = 61};

}  // namespace

TEST_CASE("under load the mean TTFT falls from random to Algorithm 1 in the published order") {
  MESSAGE("seed ", busy.seed);
  std::map<std::string, double> mean;
  for (const auto policy : {"random", "least_loaded", "cache_aware", "mooncake", "yolk"}) {
    mean[policy] = replay(policy, busy).mean_seconds;
    MESSAGE(std::string(policy), ": ", mean[policy]);
  }
  CHECK(mean["random"] > mean["least_loaded"]);
  CHECK(mean["least_loaded"] > mean["cache_aware"]);
  CHECK(mean["cache_aware"] > mean["mooncake"]);
}

TEST_CASE("under load Yolk's mean TTFT is a fifth below Algorithm 1's, and its tail no longer") {
  MESSAGE("seed ", busy.seed);
  const auto mooncake = replay("mooncake", busy);
  const auto yolk = replay("yolk", busy);
  CHECK(yolk.mean_seconds <= 0.8 * mooncake.mean_seconds);
  CHECK(yolk.percentile(0.99) <= 1.1 * mooncake.percentile(0.99));
}

TEST_CASE("the longest prefix alone sends too much to one worker") {
  MESSAGE("seed ", busy.seed);
  CHECK(replay("longest_prefix", busy).mean_seconds > 1.5 * replay("yolk", busy).mean_seconds);
}

TEST_CASE("without load every prompt waits for itself alone") {
  const replay_options idle{.nodes = 8, .speed_up = 0.05, .cache_blocks = 3000, .seed = 62};
  MESSAGE("seed ", idle.seed);
  const double yolk = replay("yolk", idle).mean_seconds;
  CHECK(yolk <= 1.01 * replay("mooncake", idle).mean_seconds);
  CHECK(yolk < replay("least_loaded", idle).mean_seconds);
}

TEST_CASE("the same seed gives the same outcome, to the last bit") {
  for (const auto policy : scheduling::placement_policy_names()) {
    CAPTURE(policy);
    const auto one = replay(policy, busy);
    const auto two = replay(policy, busy);
    CHECK(one.ttft_seconds == two.ttft_seconds);
    CHECK(one.ttft_seconds.size() == 2500);
  }
}

TEST_CASE("in overload fewer are refused than by the baseline, and more requests meet their targets") {
  replay_options overload{.nodes = 8, .decode_nodes = 3, .speed_up = 2.4, .cache_blocks = 3000, .seed = 63};
  MESSAGE("seed ", overload.seed);
  overload.rule = scheduling::admission_rule::baseline;
  const auto baseline = replay("mooncake", overload);
  overload.rule = scheduling::admission_rule::hold;
  const auto hold = replay("yolk", overload);
  CHECK(4 * hold.refused_early <= 3 * baseline.refused_early);
  CHECK(hold.refused_late == 0);
  CHECK(hold.met >= baseline.met);
  CHECK(hold.finished + hold.refused_early == 2500);
}

TEST_CASE("when decode is the narrow side the baseline loses prefills, and holding loses none") {
  replay_options narrow{.nodes = 8, .decode_nodes = 2, .speed_up = 2.4, .cache_blocks = 3000, .seed = 63};
  narrow.slo.tbt_seconds = 0.06;
  MESSAGE("seed ", narrow.seed);
  narrow.rule = scheduling::admission_rule::baseline;
  CHECK(replay("mooncake", narrow).refused_late > 0);
  narrow.rule = scheduling::admission_rule::hold;
  CHECK(replay("yolk", narrow).refused_late == 0);
}
