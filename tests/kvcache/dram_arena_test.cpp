#include "kvcache/dram_arena.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/random.hpp"

using namespace yolk;
using namespace yolk::kvcache;

namespace {

constexpr std::uint32_t block_tokens = 4;
constexpr std::size_t block_bytes = 4096;
const block_key root = make_root({.tenant = "a", .model = "m", .block_tokens = block_tokens});
constexpr core::worker_id peer{7};

core::time_point at(int seconds) {
  return core::time_point{} + std::chrono::seconds(seconds);
}
arena_lease until(int seconds, core::worker_id owner = peer) {
  return {owner, at(seconds)};
}
dram_arena_options slots(std::uint32_t count) {
  return {.byte_limit = count * block_bytes, .block_bytes = block_bytes, .block_tokens = block_tokens};
}

std::vector<core::token_id> prompt(const std::string& blocks) {
  std::vector<core::token_id> tokens;
  for (const char letter : blocks)
    tokens.insert(tokens.end(), block_tokens, static_cast<core::token_id>(letter));
  return tokens;
}

/// The header of the last block of `blocks`.
block_header header_of(const std::string& blocks) {
  const auto tokens = prompt(blocks);
  const auto keys = keys_of(root, tokens, block_tokens);
  return {.key = keys.back(),
          .parent = keys.size() > 1 ? keys[keys.size() - 2] : root,
          .tokens = {tokens.end() - block_tokens, tokens.end()},
          .first_position = static_cast<std::uint32_t>(tokens.size()) - block_tokens};
}

/// Stores what is missing of a chain, as a worker's write-back does.
void store(dram_arena& arena, const std::string& blocks) {
  const auto pinned = arena.match(root, prompt(blocks), 9999, until(1000));
  const auto have = pinned.blocks.size();
  const auto reserved = arena.reserve(static_cast<std::uint32_t>(blocks.size() - have), until(1000));
  REQUIRE(reserved);
  for (std::size_t i = have; i < blocks.size(); ++i)
    REQUIRE(arena.commit((*reserved)[i - have], header_of(blocks.substr(0, i + 1)), root) ==
            commit_outcome::stored);
  arena.unpin(pinned.id);
}

std::size_t cached(const dram_arena& arena, const std::string& blocks) {
  return arena.cache().match_count(root, prompt(blocks));
}

}  // namespace

TEST_CASE("the byte limit is kept in whole blocks") {
  auto options = slots(3);
  options.byte_limit += block_bytes - 1;
  dram_arena arena(options);
  CHECK(arena.slot_count() == 3);
  CHECK(arena.region_bytes() == 3 * block_bytes);
  CHECK(arena.slot_offset(2) == 2 * block_bytes);
  CHECK_FALSE(arena.reserve(4, until(1)).has_value());
  CHECK(dram_arena(slots(0)).slot_count() == 0);
}

TEST_CASE("a block is found only after its commit, with its header and generation") {
  dram_arena arena(slots(4));
  const auto reserved = arena.reserve(2, until(10));
  REQUIRE(reserved);
  CHECK(arena.match(root, prompt("ab"), 99, until(10)).blocks.empty());
  CHECK(arena.commit((*reserved)[0], header_of("a"), root) == commit_outcome::stored);
  CHECK(arena.commit((*reserved)[1], header_of("ab"), root) == commit_outcome::stored);
  const auto pinned = arena.match(root, prompt("abc"), 99, until(10));
  REQUIRE(pinned.blocks.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(pinned.blocks[i].slot == (*reserved)[i]);
    CHECK(pinned.blocks[i].header->generation == (*reserved)[i].generation);
    CHECK(pinned.blocks[i].header->key == keys_of(root, prompt("ab"), block_tokens)[i]);
  }
  CHECK(arena.unpin(pinned.id));
  CHECK_FALSE(arena.unpin(pinned.id));
  CHECK(arena.audit() == "");
}

TEST_CASE("hits and misses are counted in tokens of whole blocks") {
  dram_arena arena(slots(4));
  store(arena, "ab");
  const auto before = arena.counters();
  auto tokens = prompt("abcd");
  tokens.push_back(1);
  const auto pinned = arena.match(root, tokens, tokens.size() - 1, until(1));
  CHECK(arena.counters().hit_tokens - before.hit_tokens == 8);
  CHECK(arena.counters().miss_tokens - before.miss_tokens == 8);
  CHECK(arena.counters().stored_blocks == 2);
  arena.unpin(pinned.id);
}

TEST_CASE("which leaf goes first is what the order says") {
  const auto left = [](eviction_order order) {
    auto options = slots(5);
    options.order = order;
    dram_arena arena(options);
    store(arena, "a");
    store(arena, "xyz");
    for (int use = 0; use < 3; ++use) arena.unpin(arena.match(root, prompt("a"), 99, until(10)).id);
    store(arena, "b");
    arena.unpin(arena.match(root, prompt("xyz"), 99, until(10)).id);
    // a: 4 uses, oldest. x, y, z: 2 uses, last. b: 1 use.
    CHECK(arena.cache().next_evictions(9).size() == 5);
    std::string gone;
    for (const auto& key : arena.cache().next_evictions(2))
      gone += static_cast<char>(arena.find(key)->header->tokens[0]);
    const auto reserved = arena.reserve(2, until(10));
    REQUIRE(reserved);
    std::string said;
    for (const auto* each : {"a", "b"})
      if (cached(arena, each) == 0) said += each;
    if (cached(arena, "xyz") < 3) said += "z";
    CHECK(std::string(gone.begin(), gone.end()) == said);
    for (const auto& slot : *reserved) arena.abandon(slot);
    return gone;
  };
  CHECK(left(eviction_order::lru) == "ab");
  CHECK(left(eviction_order::look_ahead) == "ab");
  CHECK(left(eviction_order::lfu) == "bz");
  CHECK(left(eviction_order::length_aware) == "bz");
}

TEST_CASE("of blocks used equally often, the length-aware order gives up the one furthest in its prompt") {
  auto options = slots(4);
  options.order = eviction_order::length_aware;
  dram_arena arena(options);
  store(arena, "abc");  // c is older than x, and deeper
  store(arena, "x");
  CHECK(arena.cache().next_evictions(1).front() == keys_of(root, prompt("abc"), block_tokens)[2]);
  options.order = eviction_order::lfu;
  dram_arena by_use(options);
  store(by_use, "x");
  store(by_use, "abc");
  CHECK(by_use.cache().next_evictions(1).front() == keys_of(root, prompt("x"), block_tokens)[0]);
}

TEST_CASE("pinned blocks are not evicted, and a reservation that would need them is refused whole") {
  dram_arena arena(slots(4));
  store(arena, "ab");
  store(arena, "x");
  const auto pinned = arena.match(root, prompt("ab"), 99, until(10));
  CHECK_FALSE(arena.reserve(3, until(10)).has_value());
  CHECK(cached(arena, "x") == 1);
  const auto reserved = arena.reserve(2, until(10));
  REQUIRE(reserved);
  CHECK(cached(arena, "x") == 0);
  CHECK(cached(arena, "ab") == 2);
  CHECK(arena.clear() == 0);
  for (const auto& slot : *reserved) CHECK(arena.abandon(slot));
  arena.unpin(pinned.id);
  CHECK(arena.clear() == 2);
  CHECK(arena.counters().evicted_blocks == 3);
  CHECK(arena.audit() == "");
}

TEST_CASE("every reuse of a slot raises its generation") {
  dram_arena arena(slots(1));
  std::uint32_t last = 0;
  for (int i = 0; i < 4; ++i) {
    const auto reserved = arena.reserve(1, until(1));
    REQUIRE(reserved);
    CHECK(reserved->front().generation > last);
    last = reserved->front().generation;
    if (i % 2 == 0)
      arena.abandon(reserved->front());
    else
      arena.commit(reserved->front(), header_of("a"), root);
  }
}

TEST_CASE("a late commit does not touch the slot's next life") {
  dram_arena arena(slots(1));
  const auto late = arena.reserve(1, until(5))->front();
  CHECK(arena.expire(at(4)) == 0);
  CHECK(arena.expire(at(5)) == 1);
  CHECK(arena.audit() == "");
  const auto next = arena.reserve(1, until(9))->front();
  CHECK(next.slot == late.slot);
  CHECK(arena.commit(late, header_of("a"), root) == commit_outcome::stale);
  CHECK_FALSE(arena.abandon(late));
  CHECK(arena.reserved_count() == 1);
  CHECK(arena.commit(next, header_of("b"), root) == commit_outcome::stored);
  CHECK(arena.commit(next, header_of("b"), root) == commit_outcome::stale);  // repeated
  CHECK(cached(arena, "a") == 0);
  CHECK(cached(arena, "b") == 1);
  CHECK(arena.counters().expired_reservations == 1);
  CHECK(arena.audit() == "");
}

TEST_CASE("a block whose parent was evicted meanwhile is dropped and its slot freed") {
  dram_arena arena(slots(2));
  store(arena, "a");
  const auto reserved = arena.reserve(2, until(9));  // evicts a
  REQUIRE(reserved);
  CHECK(arena.commit((*reserved)[0], header_of("ab"), root) == commit_outcome::parent_gone);
  CHECK(arena.cache().free_count() == 1);
  CHECK(arena.abandon((*reserved)[1]));
  CHECK(arena.counters().dropped_blocks == 1);
  CHECK(arena.audit() == "");
}

TEST_CASE("a second copy of a block is dropped, and what follows it is kept under the first") {
  dram_arena arena(slots(4));
  store(arena, "a");
  const auto reserved = arena.reserve(2, until(9));
  REQUIRE(reserved);
  CHECK(arena.commit((*reserved)[0], header_of("a"), root) == commit_outcome::already_cached);
  CHECK(arena.commit((*reserved)[1], header_of("ab"), root) == commit_outcome::stored);
  CHECK(cached(arena, "ab") == 2);
  CHECK(arena.cache().free_count() == 2);
  CHECK(arena.audit() == "");
}

TEST_CASE("a header that contradicts itself is refused and its slot freed") {
  dram_arena arena(slots(4));
  store(arena, "a");
  const auto refused = [&](auto spoil) {
    block_header header = header_of("ab");
    spoil(header);
    const auto reserved = arena.reserve(1, until(9));
    REQUIRE(reserved);
    CHECK(arena.commit(reserved->front(), header, root) == commit_outcome::wrong_header);
    CHECK(arena.reserved_count() == 0);
  };
  refused([](auto& header) { header.key.low ^= 1; });
  refused([](auto& header) { header.tokens[0] ^= 1; });
  refused([](auto& header) { header.tokens.pop_back(); });
  refused([](auto& header) { header.first_position += block_tokens; });
  refused([](auto& header) { header.first_position = 0; });
  CHECK(cached(arena, "ab") == 1);
  CHECK(arena.audit() == "");
}

TEST_CASE("a dead peer's pins and reservations end by themselves, and only its own") {
  dram_arena arena(slots(8));
  store(arena, "ab");
  const core::worker_id alive{8};
  const auto mine = arena.match(root, prompt("ab"), 99, until(5));
  const auto theirs = arena.match(root, prompt("a"), 99, until(50, alive));
  CHECK(arena.reserve(2, until(6)).has_value());
  const auto kept = arena.reserve(1, until(60, alive));
  CHECK(arena.next_deadline() == at(5));
  CHECK(arena.expire(at(5)) == 1);
  CHECK_FALSE(arena.unpin(mine.id));
  CHECK(arena.next_deadline() == at(6));
  CHECK(arena.expire(at(49)) == 2);
  CHECK(arena.pin_count() == 1);
  CHECK(arena.reserved_count() == 1);
  CHECK(arena.audit() == "1 slots are reserved");
  CHECK(arena.commit(kept->front(), header_of("abc"), root) == commit_outcome::stored);
  CHECK(arena.audit() == "1 pins are left");
  CHECK(arena.unpin(theirs.id));
  CHECK_FALSE(arena.next_deadline().has_value());
  CHECK(arena.audit() == "");
  CHECK(arena.counters().expired_pins == 1);
  CHECK(arena.counters().expired_reservations == 2);
}

TEST_CASE("a peer known to be gone loses everything at once") {
  dram_arena arena(slots(8));
  store(arena, "ab");
  const core::worker_id alive{8};
  CHECK(arena.reserve(2, until(99)).has_value());
  const auto mine = arena.match(root, prompt("ab"), 99, until(99));
  const auto theirs = arena.match(root, prompt("ab"), 99, until(99, alive));
  CHECK(arena.end_owner(peer) == 3);
  CHECK_FALSE(arena.unpin(mine.id));
  CHECK(arena.unpin(theirs.id));
  CHECK(arena.audit() == "");
}

TEST_CASE("pins are bounded: beyond the limit a match finds nothing") {
  auto options = slots(4);
  options.max_pin_count = 2;
  dram_arena arena(options);
  store(arena, "a");
  const auto first = arena.match(root, prompt("a"), 99, until(9));
  const auto second = arena.match(root, prompt("a"), 99, until(9));
  CHECK(arena.match(root, prompt("a"), 99, until(9)).blocks.empty());
  CHECK(arena.pin_count() == 2);
  arena.unpin(first.id);
  const auto third = arena.match(root, prompt("a"), 99, until(9));
  CHECK(third.blocks.size() == 1);
  CHECK(third.id != second.id);
  arena.unpin(second.id);
  arena.unpin(third.id);
  CHECK(arena.audit() == "");
}

TEST_CASE("a listener hears what the snapshot says") {
  dram_arena arena(slots(3));
  std::set<block_key> known;
  arena.set_listener([&](const cache_event& event) {
    if (event.what == cache_event::kind::stored)
      known.insert(event.key);
    else
      known.erase(event.key);
  });
  store(arena, "abc");
  store(arena, "xy");
  const auto snapshot = arena.snapshot();
  CHECK(std::set<block_key>(snapshot.begin(), snapshot.end()) == known);
  CHECK(known.size() == 3);
}

TEST_CASE("under random peers that commit, die, pin and vanish, no slot is lost and no two peers share one") {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    MESSAGE("seed ", seed);
    CAPTURE(seed);
    core::random_source random(seed);
    dram_arena arena(slots(12));
    struct open_write {
      std::vector<arena_slot> slots;
      std::string chain;
      std::size_t next;
    };
    std::vector<open_write> writes;
    std::vector<std::pair<pin_id, std::vector<core::block_index>>> pins;
    std::uint64_t stale = 0;
    int now = 0;
    for (int i = 0; i < 5000; ++i) {
      CAPTURE(i);
      std::string chain;
      for (std::uint64_t n = 1 + random.below(5); n > 0; --n)
        chain += static_cast<char>('a' + random.below(2));
      switch (random.below(5)) {
        case 0:
        case 1: {  // match, then reserve what is missing; the pin is forgotten half of the time
          const auto pinned =
              arena.match(root, prompt(chain), 999, until(now + 1 + static_cast<int>(random.below(4))));
          const auto missing = static_cast<std::uint32_t>(chain.size() - pinned.blocks.size());
          auto reserved = arena.reserve(missing, until(now + 1 + static_cast<int>(random.below(4))));
          if (reserved) writes.push_back({*reserved, chain, pinned.blocks.size()});
          if (random.below(2) == 0) arena.unpin(pinned.id);
          break;
        }
        case 2:
        case 3: {  // a write goes on, in order; or was expired meanwhile
          if (writes.empty()) break;
          auto& write = writes[random.below(writes.size())];
          if (!write.slots.empty()) {
            const auto outcome =
                arena.commit(write.slots.front(), header_of(write.chain.substr(0, write.next + 1)), root);
            stale += outcome == commit_outcome::stale;
            CHECK(outcome != commit_outcome::wrong_header);
            write.slots.erase(write.slots.begin());
            ++write.next;
          } else {
            std::swap(write, writes.back());
            writes.pop_back();
          }
          break;
        }
        default:
          arena.expire(at(++now));
      }
      if (writes.size() > 20) writes.erase(writes.begin());  // this peer died
    }
    CHECK(stale > 20);
    CHECK(arena.counters().evicted_blocks > 100);
    CHECK(arena.counters().expired_pins > 100);
    CHECK(arena.counters().expired_reservations > 100);
    arena.expire(at(now + 10));
    CHECK(arena.audit() == "");
    arena.clear();
    CHECK(arena.cache().free_count() == 12);
  }
}
