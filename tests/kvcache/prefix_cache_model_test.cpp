#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "core/random.hpp"
#include "kvcache/prefix_cache.hpp"

using namespace yolk;
using namespace yolk::kvcache;

namespace {

constexpr std::uint32_t block_tokens = 2;
using tokens_t = std::vector<core::token_id>;

/// What a prefix_cache does, said as plainly as possible: a map from whole prefixes, everything found by
/// scanning.
class naive_cache {
 public:
  naive_cache(std::uint32_t block_count, eviction_order order) : order_(order), references_(block_count, 0) {}

  struct entry {
    core::block_index block = 0;
    std::uint64_t last_used = 0;
    std::uint64_t uses = 1;
  };
  using prefix = std::pair<block_key, tokens_t>;  // root, all tokens up to the block's end

  std::vector<core::block_index> match(block_key root, const tokens_t& tokens, std::size_t max_tokens) {
    ++now_;
    std::vector<core::block_index> blocks;
    for (std::size_t end = block_tokens; end <= std::min(tokens.size(), max_tokens); end += block_tokens) {
      const auto it = cached_.find({root, tokens_t(tokens.begin(), tokens.begin() + static_cast<long>(end))});
      if (it == cached_.end()) break;
      it->second.last_used = now_;
      ++it->second.uses;
      ++references_[it->second.block];
      blocks.push_back(it->second.block);
    }
    return blocks;
  }

  /// The first `continued` blocks are not brought again: what follows continues them.
  std::uint32_t insert(block_key root, const tokens_t& tokens, const std::vector<core::block_index>& blocks,
                       std::size_t continued = 0) {
    ++now_;
    std::uint32_t adopted = 0;
    for (std::size_t i = 0; i < blocks.size() && (i + 1) * block_tokens <= tokens.size(); ++i) {
      prefix key{root, tokens_t(tokens.begin(), tokens.begin() + static_cast<long>((i + 1) * block_tokens))};
      const auto [it, is_new] = cached_.try_emplace(key, entry{blocks[i], now_});
      it->second.last_used = now_;
      if (!is_new) it->second.uses += i >= continued;
      if (!is_new) continue;
      ++references_[blocks[i]];
      ++adopted;
    }
    return adopted;
  }

  [[nodiscard]] bool has_children(const prefix& parent) const {
    return std::ranges::any_of(cached_, [&](const auto& other) {
      return other.first.first == parent.first &&
             other.first.second.size() == parent.second.size() + block_tokens &&
             std::equal(parent.second.begin(), parent.second.end(), other.first.second.begin());
    });
  }

  [[nodiscard]] std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, core::block_index> rank(
      const std::pair<const prefix, entry>& of) const {
    const auto& [block, last_used, uses] = of.second;
    if (order_ == eviction_order::lfu) return {uses, 0, last_used, block};
    if (order_ == eviction_order::length_aware)
      return {uses, 1000 - of.first.second.size(), last_used, block};
    return {last_used, 0, 0, block};
  }

  /// The prefix that would be evicted next.
  [[nodiscard]] std::optional<prefix> victim() const {
    const std::pair<const prefix, entry>* best = nullptr;
    for (const auto& candidate : cached_) {
      if (references_[candidate.second.block] != 1 || has_children(candidate.first)) continue;
      if (best == nullptr || rank(candidate) < rank(*best)) best = &candidate;
    }
    return best == nullptr ? std::nullopt : std::optional(best->first);
  }

  /// Evicts until `count` blocks are free; what was evicted, in order, or nothing if it cannot be done.
  std::optional<std::vector<core::block_index>> make_room(std::uint32_t count) {
    const auto cached_before = cached_;
    const auto references_before = references_;
    std::vector<core::block_index> evicted;
    while (free_count() < count) {
      const auto next = victim();
      if (!next) {
        cached_ = cached_before;
        references_ = references_before;
        return std::nullopt;
      }
      evicted.push_back(cached_.at(*next).block);
      references_[evicted.back()] = 0;
      cached_.erase(*next);
    }
    return evicted;
  }

  [[nodiscard]] std::uint32_t available_count() const {
    naive_cache copy = *this;
    std::uint32_t count = copy.free_count();
    while (copy.make_room(count + 1)) ++count;
    return count;
  }

  [[nodiscard]] std::uint32_t free_count() const {
    return static_cast<std::uint32_t>(std::ranges::count(references_, 0u));
  }
  std::vector<std::uint32_t>& references() { return references_; }
  [[nodiscard]] const std::map<prefix, entry>& cached() const { return cached_; }

 private:
  eviction_order order_;
  std::map<prefix, entry> cached_;
  std::vector<std::uint32_t> references_;
  std::uint64_t now_ = 0;
};

/// Drives both with the same random work: sequences that match, compute, publish, hold for a while and end.
class comparison {
 public:
  comparison(std::uint32_t block_count, eviction_order order, std::uint64_t seed)
      : cache_(block_count, block_tokens, &chain, order), model_(block_count, order), random_(seed) {
    cache_.set_listener([this](const cache_event& event) { events_.push_back(event); });
  }

  /// Phases in which more sequences begin than end fill the cache up to refusals; the others empty it.
  void step(std::uint64_t phase) {
    switch (random_.below(phase % 2 == 0 ? 8 : 12)) {
      case 0:
      case 1:
      case 2:
        return begin_sequence();
      case 3:
        return probe();
      case 4:
        return toggle_single_reference();
      default:
        return end_sequence();
    }
  }

  void end_all() {
    while (!held_.empty()) end_sequence();
  }

  void compare() {
    CHECK(cache_.free_count() == model_.free_count());
    CHECK(cache_.cached_count() == model_.cached().size());
    CHECK(cache_.available_count() == model_.available_count());
    for (core::block_index block = 0; block < cache_.block_count(); ++block)
      CHECK(cache_.reference_count(block) == model_.references()[block]);
    std::set<block_key> followed;
    for (const auto& event : events_) {
      if (event.what == cache_event::kind::stored) {
        CHECK(followed.insert(event.key).second);
      } else {
        CHECK(followed.erase(event.key) == 1);
      }
    }
    const auto snapshot = cache_.snapshot();
    CHECK(std::set<block_key>(snapshot.begin(), snapshot.end()) == followed);
  }

  prefix_cache& cache() { return cache_; }
  [[nodiscard]] std::uint64_t hit_count() const { return hit_count_; }
  [[nodiscard]] std::uint64_t refused_count() const { return refused_count_; }
  [[nodiscard]] std::uint64_t orphan_count() const { return orphan_count_; }

 private:
  struct sequence {
    std::vector<core::block_index> table;
    block_key root;
    tokens_t tokens;
    std::size_t published = 0;  // blocks
    bool computed = false;      // false: only holds references
  };

  block_key random_root() { return block_key{7, random_.below(2)}; }

  tokens_t random_tokens() {
    // Few different tokens and short prompts, so that prefixes meet often.
    tokens_t tokens(random_.below(13));
    for (auto& token : tokens) token = static_cast<core::token_id>(random_.below(4) == 0 ? 1 : 0);
    return tokens;
  }

  void begin_sequence() {
    const block_key root = random_root();
    const tokens_t tokens = random_tokens();
    const std::size_t limit = random_.below(16);
    std::vector<core::block_index> table;
    for (const auto& found : cache_.match(root, tokens, limit)) table.push_back(found.block);
    REQUIRE(table == model_.match(root, tokens, limit));
    hit_count_ += table.size();
    const auto missing = static_cast<std::uint32_t>((tokens.size() + 1) / block_tokens - table.size());
    const std::size_t events_before = events_.size();
    bool computed = false;
    const auto fresh = cache_.allocate(missing);
    const auto evicted = model_.make_room(missing);
    REQUIRE(fresh.has_value() == evicted.has_value());
    if (fresh) {
      CHECK(events_.size() - events_before == evicted->size());
      for (const auto block : *fresh) ++model_.references()[block];
      for (const auto block : *fresh) CHECK(model_.references()[block] == 1);
      table.insert(table.end(), fresh->begin(), fresh->end());
      computed = true;
    } else {
      ++refused_count_;
      CHECK(events_.size() == events_before);
    }
    if (table.empty()) return;
    held_.push_back({std::move(table), root, tokens, 0, computed});
    if (computed) publish_begin(held_.back());
  }

  /// A part of what was computed, right away; end_sequence() publishes the rest, by the key of its parent.
  void publish_begin(sequence& running) {
    const std::size_t full = std::min(running.table.size(), running.tokens.size() / block_tokens);
    running.published = random_.below(full + 1);
    const tokens_t tokens(running.tokens.begin(),
                          running.tokens.begin() + static_cast<long>(running.published * block_tokens));
    const std::vector<core::block_index> blocks(running.table.begin(),
                                                running.table.begin() + static_cast<long>(running.published));
    CHECK(cache_.insert(running.root, tokens, blocks) == model_.insert(running.root, tokens, blocks));
  }

  void publish_rest(const sequence& running) {
    const std::size_t begin = running.published * block_tokens;
    const tokens_t before(running.tokens.begin(), running.tokens.begin() + static_cast<long>(begin));
    const block_key parent = begin == 0
                                 ? running.root
                                 : keys_of(running.root, running.tokens, block_tokens)[running.published - 1];
    // The sequence's own parent block may have been a duplicate, and the cached one evicted meanwhile.
    const bool parent_cached = begin == 0 || model_.cached().contains({running.root, before});
    orphan_count_ += !parent_cached;
    const std::uint32_t adopted =
        cache_.extend(running.root, parent, std::span(running.tokens).subspan(begin),
                      std::span(running.table).subspan(running.published));
    CHECK(
        adopted ==
        (parent_cached ? model_.insert(running.root, running.tokens, running.table, running.published) : 0));
  }

  void probe() {
    const block_key root = random_root();
    const tokens_t tokens = random_tokens();
    std::uint32_t expected = 0;
    while ((expected + 1) * block_tokens <= tokens.size() &&
           model_.cached().contains(
               {root,
                tokens_t(tokens.begin(), tokens.begin() + static_cast<long>((expected + 1) * block_tokens))}))
      ++expected;
    CHECK(cache_.match_count(root, tokens) == expected);
  }

  /// One more holder of a single block: references need not cover whole prefixes.
  void toggle_single_reference() {
    if (held_.empty()) return;
    const auto& table = held_[random_.below(held_.size())].table;
    const auto block = table[random_.below(table.size())];
    cache_.add_reference(block);
    ++model_.references()[block];
    held_.push_back({{block}, {}, {}, 0, false});
  }

  void end_sequence() {
    if (held_.empty()) return;
    const std::size_t which = random_.below(held_.size());
    std::swap(held_[which], held_.back());
    sequence& ending = held_.back();
    if (ending.computed && random_.below(4) != 0) publish_rest(ending);
    if (random_.below(2) == 0) std::ranges::reverse(ending.table);
    for (const auto block : ending.table) {
      cache_.release(block);
      --model_.references()[block];
    }
    held_.pop_back();
  }

  prefix_cache cache_;
  naive_cache model_;
  core::random_source random_;
  std::vector<sequence> held_;
  std::vector<cache_event> events_;
  std::uint64_t hit_count_ = 0;
  std::uint64_t refused_count_ = 0;
  std::uint64_t orphan_count_ = 0;
};

}  // namespace

TEST_CASE("a prefix cache does what the naive one does, step for step") {
  std::uint64_t orphans = 0;
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u, 6u}) {
    const std::uint32_t block_count = 8 + 4 * static_cast<std::uint32_t>(seed);
    const auto order = *find_eviction_order(serving_order_names()[seed % 3]);
    CAPTURE(seed);
    MESSAGE("seed ", seed, ", ", block_count, " blocks");
    comparison both(block_count, order, seed);
    for (int i = 0; i < 3000; ++i) {
      CAPTURE(i);
      both.step(static_cast<std::uint64_t>(i) / 200);
      if (i % 50 == 0) both.compare();
    }
    both.end_all();
    both.compare();
    CHECK(both.cache().audit() == "");
    // The run must have reached what it is about.
    CHECK(both.hit_count() > 300);
    CHECK(both.refused_count() > 10);
    CHECK(both.cache().evicted_total() > 500);
    orphans += both.orphan_count();
    both.cache().clear();
    CHECK(both.cache().free_count() == block_count);
  }
  CHECK(orphans > 3);
}
