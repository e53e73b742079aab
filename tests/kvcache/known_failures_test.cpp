// Faults that users of other LLM servers reported, at the level of these data structures; the actors' tests
// show the same faults end to end.
#include <doctest/doctest.h>

#include <algorithm>

#include "kvcache/cache_index.hpp"
#include "kvcache/dram_arena.hpp"
#include "kvcache/prefix_cache.hpp"

using namespace yolk;
using namespace yolk::kvcache;

namespace {

constexpr std::uint32_t block_tokens = 4;
const block_key root = make_root({.model = "m", .block_tokens = block_tokens});

core::time_point at(int seconds) {
  return core::time_point{} + std::chrono::seconds(seconds);
}

/// Keys that say nothing about the tokens, only how deep a block lies: every prompt of a length collides.
block_key depth_only(block_key parent, std::span<const core::token_id>) {
  return {parent.high, parent.low + 1};
}

/// Keys that forget the prefix: blocks with the same tokens collide wherever they stand.
block_key tokens_only(block_key, std::span<const core::token_id> tokens) {
  return {tokens.front(), tokens.back()};
}

std::vector<core::token_id> prompt(std::initializer_list<core::token_id> blocks) {
  std::vector<core::token_id> tokens;
  for (const auto token : blocks) tokens.insert(tokens.end(), block_tokens, token);
  return tokens;
}

std::vector<core::block_index> store(prefix_cache& cache, const std::vector<core::token_id>& tokens,
                                     block_key under = root) {
  const auto blocks = cache.allocate(static_cast<std::uint32_t>(tokens.size() / block_tokens));
  REQUIRE(blocks);
  cache.insert(under, tokens, *blocks);
  for (const auto block : *blocks) cache.release(block);
  return *blocks;
}

std::uint32_t found(prefix_cache& cache, const std::vector<core::token_id>& tokens, block_key under = root) {
  const auto matched = cache.match(under, tokens, tokens.size());
  for (const auto& block : matched) cache.release(block.block);
  CHECK(cache.match_count(under, tokens) == matched.size());
  return static_cast<std::uint32_t>(matched.size());
}

}  // namespace

TEST_CASE("a prompt whose keys collide with another's does not get its KV") {
  prefix_cache cache(8, block_tokens, &depth_only);
  store(cache, prompt({1, 2, 3}));
  CHECK(found(cache, prompt({1, 2, 3})) == 3);
  CHECK(found(cache, prompt({1, 2, 4})) == 2);
  CHECK(found(cache, prompt({5, 2, 3})) == 0);
  // Nor is it entered under the other's key, nor anything after it, where the other's prompt would find it.
  CHECK(store(cache, prompt({5, 6, 7, 8})).size() == 4);
  CHECK(found(cache, prompt({5, 6, 7, 8})) == 0);
  CHECK(found(cache, prompt({1, 2, 3, 8})) == 3);
  CHECK(cache.audit() == "");
}

TEST_CASE("equal blocks after different prefixes are not taken for each other") {
  prefix_cache cache(8, block_tokens, &tokens_only);
  store(cache, prompt({1, 9}));
  store(cache, prompt({2}));
  // The key of the second block is found and its tokens are equal: only the prefix differs.
  CHECK(found(cache, prompt({1, 9})) == 2);
  CHECK(found(cache, prompt({2, 9})) == 1);
  CHECK(found(cache, prompt({9})) == 0);
  // Another tenant's root with the same first block.
  CHECK(found(cache, prompt({1, 9}), block_key{123, 456}) == 0);
  CHECK(cache.audit() == "");
}

TEST_CASE("a root that collides with the key of a block does not lead into the other tenant's prompts") {
  prefix_cache cache(8, block_tokens, &depth_only);
  store(cache, prompt({1, 2}), block_key{9, 0});
  // The other root is what the first block's key is: the second block seems to follow it.
  CHECK(found(cache, prompt({2}), block_key{9, 1}) == 0);
  CHECK(found(cache, prompt({1, 2}), block_key{9, 0}) == 2);
}

TEST_CASE("a block that lies about its tokens is not a hit for the prompt whose key it bears") {
  // A node under the true key of `wanted`, holding something else: what a lying or broken peer could commit.
  static const auto wanted = prompt({1});
  static const auto held = prompt({2});
  prefix_cache cache(4, block_tokens, [](block_key parent, std::span<const core::token_id> tokens) {
    return chain(parent, std::ranges::equal(tokens, held) ? std::span<const core::token_id>(wanted) : tokens);
  });
  store(cache, held);
  CHECK(cache.find(chain(root, wanted)).has_value());
  CHECK(found(cache, wanted) == 0);
}

TEST_CASE("looking up a prompt without fetching it leaves no pin behind") {
  dram_arena arena({.byte_limit = 4096, .block_bytes = 1024, .block_tokens = block_tokens});
  const auto tokens = prompt({1, 2});
  const auto keys = keys_of(root, tokens, block_tokens);
  const auto reserved = arena.reserve(2, {core::worker_id{1}, at(10)});
  REQUIRE(reserved);
  arena.commit((*reserved)[0], {.key = keys[0], .parent = root, .tokens = prompt({1})}, root);
  arena.commit((*reserved)[1],
               {.key = keys[1], .parent = keys[0], .tokens = prompt({2}), .first_position = 4}, root);
  // The peer looks the prompt up, and is never heard of again.
  for (int i = 0; i < 100; ++i)
    CHECK(arena.match(root, tokens, 99, {core::worker_id{1}, at(20 + i)}).blocks.size() == 2);
  CHECK(arena.pin_count() == 100);
  CHECK_FALSE(arena.reserve(3, {core::worker_id{2}, at(30)}).has_value());
  arena.expire(at(119));
  CHECK(arena.audit() == "");
  CHECK(arena.reserve(3, {core::worker_id{2}, at(130)}).has_value());
}

TEST_CASE("a block is not evicted while it is being copied") {
  prefix_cache cache(3, block_tokens);
  store(cache, prompt({1, 2, 3}));
  const auto tokens = prompt({1, 2});
  const auto copied = cache.match(root, tokens, tokens.size());  // owned for the whole copy
  REQUIRE(copied.size() == 2);
  const auto one = cache.allocate(1);
  REQUIRE(one);
  for (const auto& block : copied) CHECK(block.block != one->front());
  CHECK_FALSE(cache.allocate(1).has_value());
  CHECK(cache.clear() == 0);
  CHECK(cache.match_count(root, tokens) == 2);
  for (const auto& block : copied) cache.release(block.block);
  CHECK(cache.allocate(2).has_value());
}

TEST_CASE("a worker restarted under the same address starts with an empty index entry") {
  cache_index index;
  const core::worker_id worker{1};
  const std::vector<block_key> keys{{1, 1}, {2, 2}};
  index.replace(worker, core::incarnation{5}, 40, keys);
  CHECK(index.leading(worker, keys) == 2);
  const std::vector<cache_event> event{{cache_event::kind::stored, keys[0]}};
  CHECK(index.apply(worker, core::incarnation{6}, 1, event) == cache_index::applied::ok);
  CHECK(index.leading(worker, keys) == 1);
  // What the old incarnation still had on its way does not count, whatever its number.
  const std::vector<cache_event> late{{cache_event::kind::stored, keys[1]}};
  CHECK(index.apply(worker, core::incarnation{5}, 41, late) == cache_index::applied::stale);
  CHECK(index.apply(worker, core::incarnation{5}, 2, late) == cache_index::applied::stale);
  CHECK(index.leading(worker, keys) == 1);
  // A restart whose first events were lost.
  CHECK(index.apply(worker, core::incarnation{7}, 3, late) == cache_index::applied::needs_snapshot);
  CHECK(index.block_count() == 0);
}

TEST_CASE("a lost event leads to a re-sync, not to an index that is wrong from then on") {
  cache_index index;
  prefix_cache cache(8, block_tokens);
  const core::worker_id holder{1};
  const core::incarnation incarnation{1};
  std::vector<cache_event> pending;
  cache.set_listener([&](const cache_event& event) { pending.push_back(event); });
  std::uint64_t sequence = 0;
  const auto send = [&](bool arrives) {
    ++sequence;
    const auto outcome =
        arrives ? index.apply(holder, incarnation, sequence, pending) : cache_index::applied::ok;
    pending.clear();
    return outcome;
  };
  const auto first = prompt({1, 2});
  const auto keys = keys_of(root, first, block_tokens);
  store(cache, first);
  CHECK(send(true) == cache_index::applied::ok);
  CHECK(index.leading(holder, keys) == 2);
  cache.clear();
  send(false);  // the eviction is lost
  store(cache, prompt({7}));
  CHECK(send(true) == cache_index::applied::needs_snapshot);
  CHECK(index.leading(holder, keys) == 0);
  index.replace(holder, incarnation, sequence, cache.snapshot());
  CHECK(index.block_count() == cache.cached_count());
  // Even when nothing follows: an empty event under the next number shows that one was lost.
  store(cache, first);
  send(false);
  CHECK(send(true) == cache_index::applied::needs_snapshot);
}
