#include "kvcache/eviction_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <list>
#include <map>
#include <vector>

#include "core/random.hpp"

using namespace yolk;
using namespace yolk::kvcache;
using order = eviction_order;

namespace {

std::uint64_t hits(const std::vector<traced_prompt>& prompts, order by, std::size_t capacity) {
  return replay_hits(prompts, by, capacity).hits;
}

/// Prompts over a random tree of blocks, as conversations make them: some go on where an earlier one ended.
std::vector<traced_prompt> conversations(std::uint64_t seed, int count) {
  core::random_source random(seed);
  std::vector<traced_prompt> prompts;
  std::uint32_t next = 1;
  for (int i = 0; i < count; ++i) {
    traced_prompt prompt{0};
    if (!prompts.empty() && random.below(3) > 0)
      prompt = prompts[prompts.size() - 1 - random.below(std::min<std::size_t>(prompts.size(), 40))];
    prompt.resize(1 + random.below(prompt.size()));
    for (std::uint64_t added = 1 + random.below(6); added > 0; --added) prompt.push_back(next++);
    prompts.push_back(prompt);
  }
  return prompts;
}

/// The plainest LRU.
std::uint64_t plain_lru_hits(const std::vector<traced_prompt>& prompts, std::size_t capacity) {
  std::list<std::uint32_t> recent;  // least recent first
  std::uint64_t hits = 0;
  for (const auto& prompt : prompts) {
    for (const auto id : prompt) {
      if (std::ranges::find(recent, id) == recent.end()) break;
      ++hits;
    }
    for (const auto id : prompt) {
      recent.remove(id);
      recent.push_back(id);
      if (recent.size() > capacity) recent.pop_front();
    }
  }
  return hits;
}

}  // namespace

TEST_CASE("orders are found by their names") {
  for (const auto name : eviction_order_names()) CHECK(find_eviction_order(name));
  CHECK(find_eviction_order("look_ahead") == order::look_ahead);
  CHECK_FALSE(find_eviction_order("fifo"));
  for (const auto name : serving_order_names()) CHECK(find_eviction_order(name));
}

TEST_CASE("without a bound every order finds all that came before") {
  const std::vector<traced_prompt> prompts{{0, 1, 2}, {0, 1, 3}, {0, 1, 2, 4}, {5}, {0}};
  for (const auto name : eviction_order_names()) {
    const auto counts = replay_hits(prompts, *find_eviction_order(name), 0);
    CHECK(counts.references == 12);
    CHECK(counts.hits == 0 + 2 + 3 + 0 + 1);
  }
  CHECK(replay_hits({}, order::lru, 5).hit_ratio() == 0.0);
}

TEST_CASE("only leading blocks are hits") {
  // 0 is evicted by 3; 1 and 2 are still there, but cannot be reached.
  CHECK(hits({{0, 1, 2}, {3}, {0, 1, 2}}, order::lru, 3) == 0);
}

TEST_CASE("leaf first keeps the beginning of what is given up") {
  // Of 0, 1, 2 the last goes for 3: 0 and 1 are found again.
  CHECK(hits({{0, 1, 2}, {3}, {0, 1, 2}}, order::leaf_lru, 3) == 2);
}

TEST_CASE("by frequency what was used once goes before what was used often, however long ago") {
  const std::vector<traced_prompt> prompts{{0}, {0}, {0}, {1}, {2}, {3}, {0}};
  CHECK(hits(prompts, order::lru, 2) == 2);
  CHECK(hits(prompts, order::lfu, 2) == 3);
}

TEST_CASE("by length the block that stood latest in its prompt goes first") {
  const std::vector<traced_prompt> prompts{{0, 1, 2}, {3}, {0, 1, 2}};
  CHECK(hits(prompts, order::lfu, 3) == 0);
  CHECK(hits(prompts, order::length_aware, 3) == 2);
}

TEST_CASE("look-ahead keeps what comes again soonest") {
  const std::vector<traced_prompt> prompts{{0}, {1}, {2}, {0}, {1}, {2}};
  CHECK(hits(prompts, order::lru, 2) == 0);
  CHECK(hits(prompts, order::look_ahead, 2) == 2);
}

TEST_CASE("LRU is the plainest LRU, and nothing finds more than look-ahead does") {
  const std::uint64_t seed = 23;
  MESSAGE("seed ", seed);
  for (std::uint64_t round = 0; round < 20; ++round) {
    CAPTURE(round);
    const auto prompts = conversations(seed + round, 200);
    for (const std::size_t capacity : {1u, 7u, 40u, 150u}) {
      CAPTURE(capacity);
      CHECK(hits(prompts, order::lru, capacity) == plain_lru_hits(prompts, capacity));
      const auto most = hits(prompts, order::look_ahead, capacity);
      CHECK(hits(prompts, order::leaf_lru, capacity) >= hits(prompts, order::lru, capacity));
      for (const auto name : eviction_order_names())
        CHECK(hits(prompts, *find_eviction_order(name), capacity) <= most);
    }
  }
}
