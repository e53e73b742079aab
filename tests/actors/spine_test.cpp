#include <doctest/doctest.h>

#include "core/random.hpp"
#include "tests/actors/toy_cluster.hpp"

using namespace yolk;
using namespace yolk::tests;

TEST_CASE("a prompt's tokens are those of its own KV, at every length around a block and a chunk") {
  toy_cluster cluster({});
  for (const std::size_t length : {1, 3, 4, 5, 7, 8, 9, 16, 17, 40}) {
    const auto prompt = prompt_of(length, length);
    CAPTURE(length);
    const auto outcome = cluster.generate({.prompt = prompt, .max_tokens = 9});
    CHECK(outcome.tokens[0] == toy_generate(prompt, 9));
    CHECK(outcome.failures.empty());
  }
  CHECK(cluster.settle() == "");
}

TEST_CASE("a repeated prefix is not computed again, and the last prompt token always is") {
  toy_cluster cluster({});
  auto prompt = prompt_of(1, 32);
  const auto cold = cluster.generate({.prompt = prompt, .max_tokens = 4});
  CHECK(cold.cached_tokens == 0);
  const auto same = cluster.generate({.prompt = prompt, .max_tokens = 4});
  CHECK(same.cached_tokens == 28);  // whole blocks, but not the last token's
  CHECK(same.tokens == cold.tokens);
  prompt.resize(18);
  prompt.push_back(499);
  const auto branch = cluster.generate({.prompt = prompt, .max_tokens = 4});
  CHECK(branch.cached_tokens == 16);
  CHECK(branch.tokens[0] == toy_generate(prompt, 4));
  CHECK(cluster.settle() == "");
}

TEST_CASE("the next turn finds what was generated in the turn before, in the shard") {
  toy_cluster cluster({});
  auto conversation = prompt_of(2, 20);
  const auto first = cluster.generate({.prompt = conversation, .max_tokens = 21});
  CHECK(cluster.settle() == "");
  conversation.insert(conversation.end(), first.tokens[0].begin(), first.tokens[0].end());
  conversation.push_back(3);
  const auto second = cluster.generate({.prompt = conversation, .max_tokens = 5});
  CHECK(second.cached_tokens == 40);
  CHECK(second.tokens[0] == toy_generate(conversation, 5));
  CHECK(cluster.settle() == "");
}

TEST_CASE("offers and pulls of more than a thousand blocks are as good as short ones") {
  toy_cluster cluster(
      {.prefill_blocks = 1400, .decode_blocks = 1400, .shard_blocks = 1400, .chunk_tokens = 512});
  const auto prompt = prompt_of(9, 1200 * toy_layout.block_tokens + 1);
  const auto cold = cluster.generate({.prompt = prompt});
  CHECK(cold.tokens[0] == toy_generate(prompt, 8));
  REQUIRE(cluster.settle() == "");
  CHECK(cluster.status_of(cluster.shard()).read()->getBlocksCached() >= 1200);
  // A worker that has computed nothing itself pulls all of it.
  cluster.kill_prefill(0);
  cluster.start_prefill(0);
  const auto warm = cluster.generate({.prompt = prompt});
  CHECK(warm.cached_tokens == 1200 * toy_layout.block_tokens);
  CHECK(warm.tokens[0] == cold.tokens[0]);
  CHECK(cluster.settle() == "");
}

TEST_CASE("another tenant's equal prompt is a miss") {
  toy_cluster cluster({});
  const auto prompt = prompt_of(3, 32);
  cluster.generate({.prompt = prompt, .tenant = "a"});
  const auto other = cluster.generate({.prompt = prompt, .tenant = "b"});
  CHECK(other.cached_tokens == 0);
  CHECK(other.tokens[0] == toy_generate(prompt, 8));
}

TEST_CASE("choices of one prompt share its blocks and do not write into each other's") {
  toy_cluster cluster({});
  const auto prompt = prompt_of(4, 18);
  const auto outcome = cluster.generate({.prompt = prompt, .max_tokens = 12, .choices = 4});
  REQUIRE(outcome.tokens.size() == 4);
  for (const auto& tokens : outcome.tokens) CHECK(tokens == toy_generate(prompt, 12));
  CHECK(cluster.settle() == "");
}

TEST_CASE("a sequence ends at its end token or at max_tokens, also with its first token") {
  toy_cluster cluster({});
  const auto prompt = prompt_of(5, 6);
  CHECK(cluster.generate({.prompt = prompt, .max_tokens = 1}).tokens[0] == toy_generate(prompt, 1));
  // A prompt whose continuation meets the end token within some tokens.
  for (std::uint64_t seed = 100;; ++seed) {
    const auto candidate = prompt_of(seed, 6);
    const auto expected = toy_generate(candidate, 40, false);
    if (expected.size() == 40) continue;
    CAPTURE(seed);
    CHECK(cluster.generate({.prompt = candidate, .max_tokens = 40, .ignore_end = false}).tokens[0] ==
          expected);
    break;
  }
  CHECK(cluster.settle() == "");
}

TEST_CASE("many requests at once, over several workers, each get their own tokens") {
  toy_cluster cluster({.prefill_workers = 2, .decode_workers = 3, .max_batch = 4});
  std::vector<std::vector<core::token_id>> prompts;
  std::vector<toy_cluster::running> all;
  for (std::uint64_t i = 0; i < 40; ++i) {
    auto prompt = prompt_of(6, 12);  // a shared beginning
    const auto own = prompt_of(50 + i, 3 + i % 11);
    prompt.insert(prompt.end(), own.begin(), own.end());
    prompts.push_back(prompt);
    all.push_back(cluster.begin({.prompt = prompt, .max_tokens = 6 + static_cast<std::uint32_t>(i % 7)}));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const auto outcome = cluster.await(all[i]);
    CHECK(outcome.tokens[0] == toy_generate(prompts[i], 6 + i % 7));
  }
  CHECK(cluster.settle() == "");
}

TEST_CASE("when decode runs out of blocks, sequences give way and are computed again, to the same tokens") {
  // 12 blocks hold 48 tokens; four sequences want 30 each.
  toy_cluster cluster({.decode_blocks = 12, .shard_blocks = 4});
  std::vector<toy_cluster::running> all;
  for (std::uint64_t i = 0; i < 4; ++i)
    all.push_back(cluster.begin({.prompt = prompt_of(70 + i, 9), .max_tokens = 21}));
  std::uint32_t resumes = 0;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto outcome = cluster.await(all[i]);
    CHECK(outcome.tokens[0] == toy_generate(prompt_of(70 + i, 9), 21));
    resumes += outcome.resumes;
  }
  CHECK(resumes > 0);
  CHECK(cluster.status_of(cluster.decode(0)).read()->getPreemptions() > 0);
  CHECK(cluster.settle() == "");
}

TEST_CASE("one leg's many choices that do not fit together are resumed one by one") {
  toy_cluster cluster({.decode_blocks = 10, .shard_blocks = 4});
  const auto prompt = prompt_of(80, 8);
  const auto outcome = cluster.generate({.prompt = prompt, .max_tokens = 20, .choices = 4});
  for (const auto& tokens : outcome.tokens) CHECK(tokens == toy_generate(prompt, 20));
  CHECK(cluster.settle() == "");
}

TEST_CASE("a cancelled request frees everything at whatever stage it was") {
  toy_cluster cluster({.decode_blocks = 24});
  core::random_source random(11);
  std::vector<toy_cluster::running> all;
  for (std::uint64_t i = 0; i < 30; ++i) {
    all.push_back(cluster.begin({.prompt = prompt_of(90 + i, 5 + random.below(40)), .max_tokens = 400}));
    if (random.below(2) == 0) cluster.cancel(all[random.below(all.size())]);
  }
  for (const auto& started : all) cluster.cancel(started);
  for (auto& started : all) started.outcome.wait();
  CHECK(cluster.settle() == "");
  const auto prompt = prompt_of(12, 20);
  CHECK(cluster.generate({.prompt = prompt}).tokens[0] == toy_generate(prompt, 8));
}

TEST_CASE("above the limits of admission a request is refused, and none of the others is disturbed") {
  toy_cluster cluster({.admission = {.max_running = 2, .max_waiting = 2}});
  std::vector<toy_cluster::running> all;
  for (std::uint64_t i = 0; i < 12; ++i)
    all.push_back(cluster.begin({.prompt = prompt_of(130 + i, 8), .max_tokens = 200}));
  std::uint32_t refused = 0;
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    const auto outcome = cluster.await(all[i]);
    if (outcome.gave_up)
      ++refused;
    else
      CHECK(outcome.tokens[0] == toy_generate(prompt_of(130 + i, 8), 200));
  }
  CHECK(refused > 0);
  CHECK(refused <= 8);
  CHECK(cluster.settle() == "");
}

namespace {

cluster_shape with(const actors::conductor_options& conductor) {
  cluster_shape shape;
  shape.prefill_workers = shape.decode_workers = 2;
  shape.conductor = conductor;
  return shape;
}

cluster_shape held_to(const char* rule, double ttft_seconds, double tbt_seconds) {
  actors::conductor_options conductor;
  conductor.admission = rule;
  conductor.slo.ttft_seconds = ttft_seconds;
  conductor.slo.tbt_seconds = tbt_seconds;
  return with(conductor);
}

}  // namespace

TEST_CASE("every placement policy gives every request its own tokens") {
  for (const auto policy : scheduling::placement_policy_names()) {
    CAPTURE(policy);
    actors::conductor_options conductor;
    conductor.placement = policy;
    toy_cluster cluster(with(conductor));
    std::vector<toy_cluster::running> all;
    for (std::uint64_t i = 0; i < 8; ++i)
      all.push_back(cluster.begin({.prompt = prompt_of(i % 3, 8 + 4 * static_cast<std::uint32_t>(i))}));
    for (std::uint64_t i = 0; i < all.size(); ++i)
      CHECK(cluster.await(all[i]).tokens[0] ==
            toy_generate(prompt_of(i % 3, 8 + 4 * static_cast<std::uint32_t>(i)), 8));
    CHECK(cluster.settle() == "");
  }
}

TEST_CASE(
    "requests that are held while all workers are busy all get their tokens, also when one is cancelled") {
  actors::conductor_options conductor;
  conductor.placement_options.hold_seconds = 0.0;  // until a worker is idle
  toy_cluster cluster(with(conductor));
  std::vector<toy_cluster::running> all;
  for (std::uint64_t i = 0; i < 16; ++i)
    all.push_back(cluster.begin({.prompt = prompt_of(200 + i, 8 + 8 * (i % 4))}));
  cluster.cancel(all[7]);
  cluster.cancel(all[15]);
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    const auto outcome = cluster.await(all[i]);
    if (i % 8 != 7) CHECK(outcome.tokens[0] == toy_generate(prompt_of(200 + i, 8 + 8 * (i % 4)), 8));
  }
  CHECK(cluster.settle() == "");
}

TEST_CASE(
    "requests that are held for room at decode come one after another, and none is refused after prefill") {
  // A decode step that is predicted to take longer than its target as soon as there are two sequences.
  auto shape = held_to("hold", 1e6, 0.0235);
  toy_cluster cluster(shape);
  std::vector<toy_cluster::running> all;
  for (std::uint64_t i = 0; i < 8; ++i) all.push_back(cluster.begin({.prompt = prompt_of(400 + i, 12)}));
  for (std::uint64_t i = 0; i < all.size(); ++i)
    CHECK(cluster.await(all[i]).tokens[0] == toy_generate(prompt_of(400 + i, 12), 8));
  CHECK(cluster.settle() == "");
}

TEST_CASE("requests that are held go on when their workers die and come back") {
  actors::conductor_options conductor;
  conductor.placement_options.hold_seconds = 0.0;
  toy_cluster cluster(with(conductor));
  std::vector<toy_cluster::running> all;
  for (std::uint64_t i = 0; i < 12; ++i) all.push_back(cluster.begin({.prompt = prompt_of(300 + i, 40)}));
  for (const std::uint32_t index : {0u, 1u}) {
    cluster.kill_prefill(index);
    cluster.start_prefill(index);
  }
  for (std::uint64_t i = 0; i < all.size(); ++i)
    CHECK(cluster.await(all[i]).tokens[0] == toy_generate(prompt_of(300 + i, 40), 8));
  CHECK(cluster.settle() == "");
}

TEST_CASE("a request that is refused for its targets, before or after its prefill, leaves nothing behind") {
  for (const auto* rule : {"baseline", "early", "predicted"}) {
    CAPTURE(rule);
    // A decode step that is predicted to take longer than any target.
    toy_cluster cluster(held_to(rule, 30.0, 1e-9));
    const auto outcome = cluster.generate({.prompt = prompt_of(7, 20), .max_tokens = 1000});
    CHECK(outcome.gave_up);
    REQUIRE_FALSE(outcome.failures.empty());
    CHECK(outcome.failures.back().find("tokens would come more slowly") != std::string::npos);
    CHECK(cluster.settle() == "");
  }
  toy_cluster cluster(held_to("early", 1e-9, 0.1));
  CHECK(cluster.generate({.prompt = prompt_of(7, 20)}).gave_up);
  CHECK(cluster.settle() == "");
}

TEST_CASE("a sequence that outgrows the decode worker's whole pool fails alone, and does not wait for ever") {
  toy_cluster cluster({.decode_blocks = 8});
  const auto outcome = cluster.generate({.prompt = prompt_of(150, 8), .max_tokens = 100});
  CHECK(outcome.gave_up);
  CHECK(outcome.failures.front().find("pool") != std::string::npos);
  CHECK(cluster.settle() == "");
}

TEST_CASE("a sequence longer than the decode worker's pool is refused at once, not retried for ever") {
  toy_cluster cluster({.decode_blocks = 4});
  const auto outcome = cluster.generate({.prompt = prompt_of(140, 60), .max_tokens = 4});
  CHECK(outcome.gave_up);
  CHECK(cluster.settle() == "");
}
