// The cache shard's SSD tier, in a cluster whose answers show any wrong KV.
#include <doctest/doctest.h>

#include <fstream>
#include <random>

#include "core/random.hpp"
#include "tests/actors/toy_cluster.hpp"
#include "tests/kvcache/temporary_folder.hpp"

using namespace yolk;
using namespace yolk::tests;

namespace {

/// Forgets what the prefill worker holds itself.
void forget_device(toy_cluster& cluster) {
  cluster.kill_prefill(0);
  cluster.start_prefill(0);
  CHECK(cluster.settle() == "");
}

double ssd_blocks(const toy_cluster& cluster, const std::string& event) {
  const auto text = cluster.recorder()->expose();
  const auto family = text.find("\nyolk_ssd_blocks_total{");
  const auto at = text.find("event=\"" + event + "\"", family);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(text.find(' ', at)));
}

void check_prompt(toy_cluster& cluster, std::uint64_t seed, std::uint32_t cached_tokens) {
  CAPTURE(seed);
  const auto prompt = prompt_of(seed, 32);
  const auto outcome = cluster.generate({.prompt = prompt, .max_tokens = 4});
  CHECK(outcome.tokens[0] == toy_generate(prompt, 4));
  CHECK(outcome.cached_tokens == cached_tokens);
}

}  // namespace

TEST_CASE("what a shard had is found again after it died") {
  for (const auto policy :
       {actors::cache_write_policy::write_through, actors::cache_write_policy::write_back}) {
    const temporary_folder folder;
    toy_cluster cluster({.ssd_folder = folder.path(), .write_policy = policy});
    for (std::uint64_t seed = 1; seed <= 3; ++seed) check_prompt(cluster, seed, 0);
    CHECK(cluster.settle() == "");
    cluster.kill_shard();
    cluster.start_shard();
    forget_device(cluster);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) check_prompt(cluster, seed, 28);
    CHECK(cluster.settle() == "");
    CHECK(ssd_blocks(cluster, "read") >= 21);
  }
}

TEST_CASE("a node that is told to write nothing finds what was written before") {
  const temporary_folder folder;
  {
    toy_cluster cluster({.ssd_folder = folder.path()});
    check_prompt(cluster, 1, 0);
    CHECK(cluster.settle() == "");
  }
  toy_cluster cluster({.ssd_folder = folder.path(), .write_policy = actors::cache_write_policy::none});
  CHECK(cluster.settle() == "");
  check_prompt(cluster, 1, 28);
  check_prompt(cluster, 2, 0);
  cluster.kill_shard();
  cluster.start_shard();
  forget_device(cluster);
  check_prompt(cluster, 2, 0);
}

TEST_CASE("a block that left DRAM is still held while SSD has it") {
  for (const auto policy :
       {actors::cache_write_policy::write_through, actors::cache_write_policy::write_back}) {
    const temporary_folder folder;
    toy_cluster cluster({.shard_blocks = 20, .ssd_folder = folder.path(), .write_policy = policy});
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      check_prompt(cluster, seed, 0);
      CHECK(cluster.settle() == "");  // what is evicted was saved before
    }
    forget_device(cluster);
    const auto status = cluster.status_of(cluster.shard());
    CHECK(status.read()->getEvictedBlocks() > 20);
    std::uint32_t found = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      const auto prompt = prompt_of(seed, 32);
      const auto outcome = cluster.generate({.prompt = prompt, .max_tokens = 4});
      CHECK(outcome.tokens[0] == toy_generate(prompt, 4));
      found += outcome.cached_tokens;
    }
    // write_back saves by the clock: what came and went between two ticks is lost.
    if (policy == actors::cache_write_policy::write_through) CHECK(found == 6 * 28);
    CHECK(cluster.settle() == "");
  }
}

TEST_CASE("two prompts that continue the same beginning load it once") {
  const temporary_folder folder;
  toy_cluster cluster({.ssd_folder = folder.path()});
  check_prompt(cluster, 1, 0);
  CHECK(cluster.settle() == "");
  cluster.kill_shard();
  cluster.start_shard();
  forget_device(cluster);
  std::vector<toy_cluster::running> runs;
  auto prompt = prompt_of(1, 32);
  for (int i = 0; i < 6; ++i) runs.push_back(cluster.begin({.prompt = prompt, .max_tokens = 4}));
  for (auto& each : runs) CHECK(cluster.await(each).tokens[0] == toy_generate(prompt, 4));
  CHECK(cluster.settle() == "");
  CHECK(ssd_blocks(cluster, "read") <= 9);
}

TEST_CASE("KV that was spoilt on disk is a miss, and is computed again") {
  const temporary_folder folder;
  toy_cluster cluster({.ssd_folder = folder.path()});
  check_prompt(cluster, 1, 0);
  CHECK(cluster.settle() == "");
  cluster.kill_shard();
  for (const auto& file : folder.block_files()) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(4096 + 500);  // in the first record's payload
    bytes.write("spoilt", 6);
  }
  cluster.start_shard();
  forget_device(cluster);
  check_prompt(cluster, 1, 0);
  CHECK(cluster.settle() == "");
  forget_device(cluster);
  check_prompt(cluster, 1, 28);
  CHECK(ssd_blocks(cluster, "check_failed") == 1);
}

TEST_CASE("under load, with little room everywhere and a shard that dies, every answer is right") {
  const auto seed = std::random_device()();
  MESSAGE("seed " << seed);
  core::random_source random(seed);
  const temporary_folder folder;
  toy_cluster cluster({.prefill_workers = 2,
                       .prefill_blocks = 24,
                       .shard_blocks = 24,
                       .ssd_folder = folder.path(),
                       .ssd_bytes = 96 << 10,
                       .write_policy = random.below(2) == 0 ? actors::cache_write_policy::write_through
                                                            : actors::cache_write_policy::write_back});
  for (int round = 0; round < 12; ++round) {
    std::vector<std::pair<toy_cluster::running, std::vector<core::token_id>>> runs;
    for (int i = 0; i < 8; ++i) {
      auto prompt = prompt_of(random.below(6), 8 + random.below(24));
      prompt.push_back(static_cast<core::token_id>(random.below(3)));
      runs.emplace_back(cluster.begin({.prompt = prompt, .max_tokens = 6}), prompt);
    }
    if (random.below(2) == 0) {
      cluster.kill_shard();
      cluster.start_shard();
    }
    for (auto& [run, prompt] : runs) CHECK(cluster.await(run).tokens[0] == toy_generate(prompt, 6));
    CHECK(cluster.settle() == "");
  }
}
