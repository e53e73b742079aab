#include "kvcache/cache_index.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/random.hpp"
#include "kvcache/holder_table.hpp"

using namespace yolk;
using namespace yolk::kvcache;
using applied = cache_index::applied;

namespace {

constexpr core::worker_id shard{3};
constexpr core::incarnation first{10};
constexpr core::incarnation second{11};

std::vector<block_key> keys(std::uint64_t begin, std::uint64_t end) {
  std::vector<block_key> made;
  for (std::uint64_t i = begin; i < end; ++i) made.push_back({i, i * 0x9e3779b97f4a7c15u});
  return made;
}

std::vector<cache_event> events(cache_event::kind what, const std::vector<block_key>& of) {
  std::vector<cache_event> made;
  for (const auto key : of) made.push_back({what, key});
  return made;
}

std::vector<cache_event> stored(std::uint64_t begin, std::uint64_t end) {
  return events(cache_event::kind::stored, keys(begin, end));
}

std::vector<cache_event> evicted(std::uint64_t begin, std::uint64_t end) {
  return events(cache_event::kind::evicted, keys(begin, end));
}

}  // namespace

TEST_CASE("the index knows how many leading blocks each holder has") {
  cache_index index;
  CHECK(index.apply(shard, first, 1, stored(1, 6)) == applied::ok);
  CHECK(index.apply(core::worker_id{4}, first, 1, stored(1, 3)) == applied::ok);
  CHECK(index.leading(shard, keys(1, 10)) == 5);
  CHECK(index.leading(core::worker_id{4}, keys(1, 10)) == 2);
  CHECK(index.leading(core::worker_id{5}, keys(1, 10)) == 0);
  CHECK(index.leading(shard, keys(0, 10)) == 0);
  CHECK(index.leading(shard, {}) == 0);
  CHECK(index.block_count() == 7);
  CHECK(index.apply(shard, first, 2, evicted(3, 4)) == applied::ok);
  CHECK(index.leading(shard, keys(1, 10)) == 2);  // what lies behind the hole does not count
  CHECK(index.block_count() == 6);
}

TEST_CASE("an event that was applied before is ignored") {
  cache_index index;
  CHECK(index.apply(shard, first, 1, stored(1, 3)) == applied::ok);
  CHECK(index.apply(shard, first, 2, evicted(1, 3)) == applied::ok);
  CHECK(index.apply(shard, first, 1, stored(1, 3)) == applied::stale);
  CHECK(index.block_count() == 0);
}

TEST_CASE("a holder whose beginning was missed is asked for a snapshot") {
  cache_index index;
  CHECK(index.apply(shard, first, 5, stored(1, 3)) == applied::needs_snapshot);
  CHECK(index.block_count() == 0);
  index.replace(shard, first, 5, keys(1, 4));
  CHECK(index.apply(shard, first, 6, stored(4, 5)) == applied::ok);
  CHECK(index.leading(shard, keys(1, 9)) == 4);
}

TEST_CASE("a gap makes a holder's entries void until its snapshot, and only its own") {
  cache_index index;
  const core::worker_id other{4};
  index.apply(other, first, 1, stored(1, 3));
  index.apply(shard, first, 1, stored(1, 3));
  CHECK(index.apply(shard, first, 3, stored(3, 4)) == applied::needs_snapshot);
  CHECK(index.leading(shard, keys(1, 4)) == 0);
  CHECK(index.leading(other, keys(1, 4)) == 2);
  CHECK(index.apply(shard, first, 4, stored(4, 5)) == applied::needs_snapshot);
  CHECK(index.apply(shard, first, 1, stored(1, 3)) == applied::stale);
  index.replace(shard, first, 4, keys(1, 5));
  CHECK(index.leading(shard, keys(1, 9)) == 4);
  CHECK(index.apply(shard, first, 3, evicted(1, 2)) == applied::stale);  // the snapshot covers it
  CHECK(index.apply(shard, first, 5, evicted(4, 5)) == applied::ok);
  CHECK(index.leading(shard, keys(1, 9)) == 3);
}

TEST_CASE("an event lost after the snapshot was taken is noticed by the next one") {
  cache_index index;
  index.apply(shard, first, 1, stored(1, 3));
  CHECK(index.apply(shard, first, 3, stored(3, 4)) == applied::needs_snapshot);
  CHECK(index.apply(shard, first, 5, stored(5, 6)) == applied::needs_snapshot);
  index.replace(shard, first, 4, keys(1, 5));  // number 5 came while the index was void
  CHECK(index.apply(shard, first, 6, stored(6, 7)) == applied::needs_snapshot);
  CHECK(index.block_count() == 0);
}

TEST_CASE("a snapshot that events have overtaken does not roll them back") {
  cache_index index;
  index.replace(shard, first, 4, keys(1, 5));
  CHECK(index.apply(shard, first, 5, evicted(2, 5)) == applied::ok);
  index.replace(shard, first, 4, keys(1, 5));
  CHECK(index.leading(shard, keys(1, 5)) == 1);
  index.replace(shard, second, 1, keys(1, 3));
  index.replace(shard, first, 99, keys(1, 9));
  CHECK(index.leading(shard, keys(1, 9)) == 2);
}

TEST_CASE("the late events of a removed holder do not bring it back") {
  cache_index index;
  index.apply(shard, first, 1, stored(1, 3));
  index.remove(shard);
  index.remove(core::worker_id{99});
  CHECK(index.block_count() == 0);
  CHECK(index.apply(shard, first, 2, stored(3, 4)) == applied::needs_snapshot);
  CHECK(index.apply(shard, core::incarnation{9}, 1, stored(1, 3)) == applied::stale);
  CHECK(index.leading(shard, keys(1, 4)) == 0);
  index.replace(shard, first, 2, keys(1, 4));
  CHECK(index.leading(shard, keys(1, 4)) == 3);
  index.remove(shard);
  CHECK(index.apply(shard, second, 1, stored(1, 2)) == applied::ok);
  CHECK(index.leading(shard, keys(1, 4)) == 1);
}

TEST_CASE("only so many removed holders are remembered") {
  cache_index index({.removed_holders = 2});
  for (std::uint32_t id = 1; id <= 3; ++id) {
    index.apply(core::worker_id{id}, first, 1, stored(1, 2));
    index.remove(core::worker_id{id});
  }
  // The one removed first is forgotten: its incarnation counts as any other.
  CHECK(index.apply(core::worker_id{1}, core::incarnation{9}, 1, stored(1, 2)) == applied::ok);
  CHECK(index.apply(core::worker_id{2}, core::incarnation{9}, 1, stored(1, 2)) == applied::stale);
  CHECK(index.apply(core::worker_id{3}, core::incarnation{9}, 1, stored(1, 2)) == applied::stale);
}

TEST_CASE("what a holder says beyond its limit is not remembered") {
  cache_index index({.keys_per_holder = 4});
  CHECK(index.apply(shard, first, 1, stored(1, 9)) == applied::ok);
  CHECK(index.block_count() == 4);
  CHECK(index.leading(shard, keys(1, 9)) == 4);
  index.replace(shard, first, 2, keys(1, 100));
  CHECK(index.block_count() == 4);
}

TEST_CASE("a (holder, key) pair takes at most 64 bytes, growing or shrinking") {
  cache_index index;
  std::uint64_t sequence = 0;
  std::uint64_t count = 16;
  for (; count < 100'000; count += count / 5) {
    index.replace(shard, first, ++sequence, {});
    for (std::uint64_t i = 0; i < count; ++i) index.apply(shard, first, ++sequence, stored(i + 1, i + 2));
    CHECK(index.memory_bytes() <= 64 * index.block_count());
  }
  for (std::uint64_t left = index.block_count(); left > 16; --left) {
    index.apply(shard, first, ++sequence, evicted(left, left + 1));
    REQUIRE(index.memory_bytes() <= 64 * index.block_count());
  }
}

TEST_CASE("one walk over the keys finds what asking for every holder would find") {
  const std::uint64_t seed = 71;
  MESSAGE("seed ", seed);
  core::random_source random(seed);
  cache_index index;
  const auto chain = keys(1, 40);
  std::map<core::worker_id, std::uint64_t> numbers;
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const core::worker_id holder{static_cast<std::uint32_t>(random.below(100))};
    const auto key = chain[random.below(chain.size())];
    const auto what = random.below(3) > 0 ? cache_event::kind::stored : cache_event::kind::evicted;
    REQUIRE(index.apply(holder, first, ++numbers[holder], events(what, {key})) == applied::ok);
    if (random.below(300) == 0) {
      index.remove(holder);
      index.replace(holder, first, ++numbers[holder], chain);
    }
    if (i % 10 != 0) continue;
    std::map<core::worker_id, std::uint32_t> found;
    for (const auto& match : index.matches(chain)) {
      CHECK(match.leading > 0);
      CHECK(found.emplace(match.holder, match.leading).second);
    }
    for (std::uint32_t id = 0; id < 100; ++id) {
      const auto at = found.find({id});
      REQUIRE(index.leading({id}, chain) == (at == found.end() ? 0 : at->second));
    }
  }
  CHECK(index.matches({}).empty());
  CHECK(index.matches(keys(1000, 1010)).empty());
}

TEST_CASE("a key of many holders costs its bit set and no more") {
  cache_index index;
  for (std::uint32_t id = 0; id < 64; ++id) index.replace({id}, first, 1, keys(1, 1001));
  CHECK(index.block_count() == 64'000);
  CHECK(index.memory_bytes() <= 1000 * (64 + 64));
}

TEST_CASE("a holder table does what a map of sets does, whatever the keys and holders") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    MESSAGE("seed ", seed);
    core::random_source random(seed);
    holder_table table;
    std::map<block_key, std::set<holder_table::holder>> model;
    for (int i = 0; i < 20'000; ++i) {
      CAPTURE(i);
      // The all-zero key among them; holders on both sides of a word's end, and far away.
      const block_key key{random.below(40), random.below(3) * (random.below(2) << 63)};
      const auto who = static_cast<holder_table::holder>(random.below(8) + 60 * random.below(2) +
                                                         (random.below(20) == 0 ? 5000 : 0));
      const bool adds = random.below(100) < (i / 2000 % 2 == 0 ? 70u : 30u);
      if (adds) {
        REQUIRE(table.insert(key, who) == model[key].insert(who).second);
      } else {
        REQUIRE(table.erase(key, who) == (model.contains(key) && model[key].erase(who) == 1));
      }
      if (random.below(1000) == 0) {
        table.erase_all(who);
        for (auto& [known, holders] : model) holders.erase(who);
      }
      std::erase_if(model, [](const auto& entry) { return entry.second.empty(); });
      REQUIRE(table.key_count() == model.size());
      const block_key other{random.below(40), random.below(3)};
      REQUIRE(table.contains(other, who) == (model.contains(other) && model[other].contains(who)));
    }
  }
}

TEST_CASE(
    "an index that follows a cache through lost, repeated and late events never claims what is not there") {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    MESSAGE("seed ", seed);
    CAPTURE(seed);
    core::random_source random(seed);
    cache_index index;
    std::set<block_key> truth;
    std::uint64_t sequence = 0;
    core::incarnation incarnation{1};
    std::map<std::uint64_t, std::pair<core::incarnation, std::vector<cache_event>>> sent;
    int resyncs = 0;
    for (int i = 0; i < 4000; ++i) {
      CAPTURE(i);
      if (random.below(200) == 0) {
        incarnation.value++;
        sequence = 0;
        truth.clear();
      }
      std::vector<cache_event> batch;
      for (std::uint64_t n = random.below(4); n > 0; --n) {
        const block_key key{random.below(50), random.below(50)};
        const bool adds = !truth.contains(key);
        if (adds)
          truth.insert(key);
        else
          truth.erase(key);
        batch.push_back({adds ? cache_event::kind::stored : cache_event::kind::evicted, key});
      }
      ++sequence;
      sent[incarnation.value * 100'000 + sequence] = {incarnation, batch};
      if (random.below(20) == 0) continue;  // lost
      if (random.below(10) == 0) {          // an old one again, of this incarnation or an earlier one
        auto old = std::next(sent.begin(), static_cast<long>(random.below(sent.size())));
        if (old->first != incarnation.value * 100'000 + sequence && old->second.first < incarnation)
          index.apply(shard, old->second.first, old->first % 100'000, old->second.second);
      }
      if (index.apply(shard, incarnation, sequence, batch) == applied::needs_snapshot) {
        CHECK(index.block_count() == 0);
        ++resyncs;
        if (random.below(2) == 0)
          index.replace(shard, incarnation, sequence, std::vector<block_key>(truth.begin(), truth.end()));
        continue;
      }
      REQUIRE(index.block_count() == truth.size());
      for (const auto key : truth) REQUIRE(index.leading(shard, std::vector{key}) == 1);
    }
    CHECK(resyncs > 50);
  }
}
