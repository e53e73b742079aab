#include "kvcache/prefix_cache.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

using namespace yolk;
using namespace yolk::kvcache;

namespace {

constexpr std::uint32_t block_tokens = 4;
const block_key root =
    make_root({.tenant = "a", .model = "m", .kv_dtype = "bf16", .block_tokens = block_tokens});

/// Blocks' worth of tokens, one letter each: "aab" is a block of a's, another of a's, one of b's.
std::vector<core::token_id> prompt(const std::string& blocks) {
  std::vector<core::token_id> tokens;
  for (const char letter : blocks)
    tokens.insert(tokens.end(), block_tokens, static_cast<core::token_id>(letter));
  return tokens;
}

/// Computes and caches a prompt as a worker does, then lets go of it.
std::vector<core::block_index> store(prefix_cache& cache, const std::string& blocks) {
  const auto tokens = prompt(blocks);
  auto matched = cache.match(root, tokens, tokens.size());
  std::vector<core::block_index> table;
  for (const auto& found : matched) table.push_back(found.block);
  const auto fresh = cache.allocate(static_cast<std::uint32_t>(blocks.size() - table.size()));
  REQUIRE(fresh);
  table.insert(table.end(), fresh->begin(), fresh->end());
  cache.insert(root, tokens, table);
  for (const auto block : table) cache.release(block);
  return table;
}

void release_all(prefix_cache& cache, const std::vector<cached_block>& blocks) {
  for (const auto& block : blocks) cache.release(block.block);
}

}  // namespace

TEST_CASE("a prompt finds its longest cached prefix, in whole blocks and up to the limit asked for") {
  prefix_cache cache(8, block_tokens);
  const auto table = store(cache, "abc");
  auto tokens = prompt("abcd");
  tokens.pop_back();
  CHECK(cache.match_count(root, tokens) == 3);
  CHECK(cache.match_count(root, prompt("abx")) == 2);
  CHECK(cache.match_count(root, prompt("bc")) == 0);
  const auto all = cache.match(root, tokens, tokens.size());
  REQUIRE(all.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(all[i].block == table[i]);
    CHECK(all[i].key == keys_of(root, tokens, block_tokens)[i]);
    CHECK(cache.reference_count(all[i].block) == 2);
  }
  release_all(cache, all);
  // At least the prompt's last token must be left to compute: 12 tokens cached, 11 allowed.
  const auto clipped = cache.match(root, prompt("abc"), 11);
  CHECK(clipped.size() == 2);
  release_all(cache, clipped);
  CHECK(cache.match(root, prompt("abc"), 3).empty());
  CHECK(cache.audit() == "");
}

TEST_CASE("another root shares nothing") {
  prefix_cache cache(8, block_tokens);
  store(cache, "ab");
  const auto other =
      make_root({.tenant = "b", .model = "m", .kv_dtype = "bf16", .block_tokens = block_tokens});
  CHECK(cache.match_count(other, prompt("ab")) == 0);
}

TEST_CASE("estimates neither pin nor refresh") {
  prefix_cache cache(2, block_tokens);
  store(cache, "a");
  store(cache, "b");
  CHECK(cache.match_count(root, prompt("a")) == 1);
  CHECK(cache.audit() == "");
  store(cache, "c");  // evicts the older
  CHECK(cache.match_count(root, prompt("a")) == 0);
  CHECK(cache.match_count(root, prompt("b")) == 1);
}

TEST_CASE("eviction takes the least recently used leaf, so that no unreachable tail stays") {
  prefix_cache cache(4, block_tokens);
  store(cache, "abc");
  store(cache, "x");
  // "a", "b" are as old as "c", but only "c" is a leaf.
  store(cache, "y");
  CHECK(cache.match_count(root, prompt("abc")) == 2);
  CHECK(cache.match_count(root, prompt("x")) == 1);
  release_all(cache, cache.match(root, prompt("ab"), 99));  // refreshed: now x is the oldest
  store(cache, "z");
  CHECK(cache.match_count(root, prompt("x")) == 0);
  CHECK(cache.match_count(root, prompt("ab")) == 2);
  CHECK(cache.evicted_total() == 2);
}

TEST_CASE("allocation is all or nothing and evicts nothing in vain") {
  prefix_cache cache(4, block_tokens);
  store(cache, "ab");
  const auto pinned = cache.match(root, prompt("ab"), 99);
  store(cache, "xy");
  CHECK(cache.available_count() == 2);
  CHECK_FALSE(cache.allocate(3).has_value());
  CHECK(cache.evicted_total() == 0);
  CHECK(cache.cached_count() == 4);
  const auto blocks = cache.allocate(2);
  REQUIRE(blocks);
  CHECK(cache.match_count(root, prompt("xy")) == 0);
  CHECK(cache.available_count() == 0);
  for (const auto block : *blocks) cache.release(block);
  release_all(cache, pinned);
  CHECK(cache.available_count() == 4);
  CHECK(cache.audit() == "");
}

TEST_CASE("a block under a referenced one is not counted as available, even without a reference of its own") {
  prefix_cache cache(3, block_tokens);
  const auto table = store(cache, "abc");
  cache.add_reference(table[2]);
  CHECK(cache.available_count() == 0);
  CHECK_FALSE(cache.allocate(1).has_value());
  cache.release(table[2]);
  CHECK(cache.available_count() == 3);
  cache.add_reference(table[1]);
  CHECK(cache.available_count() == 1);
  REQUIRE(cache.allocate(1) == std::vector{table[2]});
  cache.release(table[2]);
  cache.release(table[1]);
  CHECK(cache.audit() == "");
}

TEST_CASE("a second copy of a cached block stays its caller's") {
  prefix_cache cache(8, block_tokens);
  const auto first = store(cache, "ab");
  const auto own = cache.allocate(3);
  REQUIRE(own);
  CHECK(cache.insert(root, prompt("abc"), *own) == 1);  // only c is new; it hangs under the first copy of b
  const auto found = cache.match(root, prompt("abc"), 99);
  REQUIRE(found.size() == 3);
  CHECK(found[0].block == first[0]);
  CHECK(found[1].block == first[1]);
  CHECK(found[2].block == (*own)[2]);
  release_all(cache, found);
  for (const auto block : *own) cache.release(block);
  CHECK(cache.free_count() == 5);
  CHECK(cache.audit() == "");
}

TEST_CASE("a chain is extended where it ends, and only while its parent is cached") {
  prefix_cache cache(4, block_tokens);
  store(cache, "ab");
  const auto keys = keys_of(root, prompt("abc"), block_tokens);
  const auto fresh = cache.allocate(2);
  REQUIRE(fresh);
  const std::vector one{(*fresh)[0]};
  CHECK(cache.extend(root, keys[1], prompt("c"), one) == 1);
  CHECK(cache.match_count(root, prompt("abc")) == 3);
  const std::vector two{(*fresh)[1]};
  CHECK(cache.extend(root, block_key{1, 2}, prompt("d"), two) == 0);
  CHECK(cache.extend(root, root, prompt("d"), two) == 1);
  CHECK(cache.match_count(root, prompt("d")) == 1);
  for (const auto block : *fresh) cache.release(block);
  CHECK(cache.audit() == "");
}

TEST_CASE("extending a chain keeps the whole of it young") {
  prefix_cache cache(4, block_tokens);
  store(cache, "ab");
  store(cache, "x");
  const auto pinned = cache.match(root, prompt("x"), 99);
  const auto fresh = cache.allocate(1);
  REQUIRE(fresh);
  CHECK(cache.extend(root, keys_of(root, prompt("ab"), block_tokens)[1], prompt("c"), *fresh) == 1);
  cache.release(fresh->front());
  const auto taken = cache.allocate(1);  // c, because x is pinned
  REQUIRE(taken);
  CHECK(cache.match_count(root, prompt("abc")) == 2);
  release_all(cache, pinned);
  // a and b were stored before x, but used with c since.
  const auto next = cache.allocate(1);
  REQUIRE(next);
  CHECK(cache.match_count(root, prompt("x")) == 0);
  CHECK(cache.match_count(root, prompt("ab")) == 2);
}

TEST_CASE("clear drops what nobody references and keeps the rest") {
  prefix_cache cache(8, block_tokens);
  store(cache, "abc");
  store(cache, "abxy");
  const auto pinned = cache.match(root, prompt("ab"), 99);
  CHECK(cache.clear() == 3);
  CHECK(cache.cached_count() == 2);
  CHECK(cache.match_count(root, prompt("abc")) == 2);
  release_all(cache, pinned);
  CHECK(cache.clear() == 2);
  CHECK(cache.free_count() == 8);
  CHECK(cache.audit() == "");
}

TEST_CASE("a listener that follows the events knows what is cached, and never a child without its parent") {
  prefix_cache cache(4, block_tokens);
  std::set<block_key> known;
  std::vector<cache_event> order;
  cache.set_listener([&](const cache_event& event) {
    const bool stored = event.what == cache_event::kind::stored;
    CHECK((stored ? known.insert(event.key).second : known.erase(event.key) == 1));
    order.push_back(event);
  });
  store(cache, "abc");
  store(cache, "xyz");
  const auto keys = keys_of(root, prompt("abc"), block_tokens);
  REQUIRE(order.size() == 8);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(order[i].what == cache_event::kind::stored);
    CHECK(order[i].key == keys[i]);
  }
  // Two of the first three had to go: the deepest first.
  for (std::size_t i = 3; i < 5; ++i) {
    CHECK(order[i].what == cache_event::kind::evicted);
    CHECK(order[i].key == keys[5 - i]);
  }
  const auto snapshot = cache.snapshot();
  CHECK(std::set<block_key>(snapshot.begin(), snapshot.end()) == known);
  cache.set_listener(nullptr);
  cache.clear();
  CHECK(known.size() == 4);
}

TEST_CASE("a snapshot names parents before children") {
  prefix_cache cache(16, block_tokens);
  // Blocks come back from the free list in another order than their depth.
  store(cache, "pqrstu");
  cache.clear();
  store(cache, "abcd");
  store(cache, "abxy");
  const auto snapshot = cache.snapshot();
  CHECK(snapshot.size() == 6);
  const auto position = [&](block_key key) { return std::ranges::find(snapshot, key) - snapshot.begin(); };
  for (const auto* chain : {"abcd", "abxy"}) {
    const auto keys = keys_of(root, prompt(chain), block_tokens);
    for (std::size_t i = 1; i < keys.size(); ++i) CHECK(position(keys[i - 1]) < position(keys[i]));
    CHECK(position(keys.back()) < 6);
  }
}

TEST_CASE("the audit names what is held beyond the cache") {
  prefix_cache cache(4, block_tokens);
  const auto table = store(cache, "ab");
  CHECK(cache.audit() == "");
  cache.add_reference(table[1]);
  CHECK(cache.audit().find("block " + std::to_string(table[1]) + " (cached) has 2 references") !=
        std::string::npos);
  cache.release(table[1]);
  const auto leaked = cache.allocate(2);
  REQUIRE(leaked);
  CHECK(cache.audit().find("2 blocks are held beyond the cache") != std::string::npos);
  for (const auto block : *leaked) cache.release(block);
  CHECK(cache.audit() == "");
}

TEST_CASE("a cache without blocks caches nothing") {
  prefix_cache cache(0, block_tokens);
  CHECK_FALSE(cache.allocate(1).has_value());
  CHECK(cache.allocate(0)->empty());
  CHECK(cache.match(root, prompt("a"), 99).empty());
  CHECK(cache.audit() == "");
}
