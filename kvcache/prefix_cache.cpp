#include "kvcache/prefix_cache.hpp"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include "core/invariant.hpp"
#include "kvcache/block_map.hpp"
#include "kvcache/eviction_queue.hpp"

namespace yolk::kvcache {

namespace {

/// Where a walk down the tree stands: the last block passed (no_block at the root) and its key.
struct cursor {
  core::block_index block = core::no_block;
  block_key key;
};

/// What the tree knows of a cached block. A block is held while somebody but the tree references it or one of
/// its descendants: such a block cannot be evicted, leaf first, however many others are.
struct node {
  block_key parent_key;  // the root for a first block
  core::block_index parent = core::no_block;
  std::uint32_t child_count = 0;
  std::uint32_t holds = 0;  // held children, plus one if it is referenced beyond the tree
  std::uint64_t last_used = 0;
  std::uint32_t use_count = 1;  // since it came
  std::uint32_t depth = 0;      // blocks before it
};

/// Of what may be evicted the least goes first.
eviction_rank rank_of(const node& what, eviction_order order) {
  constexpr std::uint64_t deepest = 0xffffffffu;
  switch (order) {
    case eviction_order::lfu:
      return {what.use_count, what.last_used};
    case eviction_order::length_aware:
      return {(std::uint64_t{what.use_count} << 32) | (deepest - what.depth), what.last_used};
    default:
      return {what.last_used, 0};
  }
}

}  // namespace

/// The nodes are numbered as their blocks are: a block is in the tree at most once. The eviction queue has
/// exactly the nodes without children and without holds.
struct prefix_cache::tree {
  tree(std::uint32_t block_count, std::uint32_t tokens_per_block, chain_function chain_key,
       eviction_order order)
      : pool(block_count),
        block_tokens(tokens_per_block),
        chain_key(chain_key),
        order(order),
        map(block_count),
        evictable(block_count),
        nodes(block_count),
        tokens(
            std::make_unique_for_overwrite<core::token_id[]>(std::size_t{block_count} * tokens_per_block)) {}

  [[nodiscard]] std::span<const core::token_id> tokens_of(core::block_index block) const {
    return {tokens.get() + std::size_t{block} * block_tokens, block_tokens};
  }

  /// The cached block that holds `part` after `at`: by its key, and proved by its parent and tokens. By
  /// induction over the walk the whole prefix, from the root on, is the same.
  [[nodiscard]] core::block_index child(const cursor& at, block_key key,
                                        std::span<const core::token_id> part) const {
    const core::block_index block = map.find(key);
    return block != core::no_block && is_child(block, at, part) ? block : core::no_block;
  }

  [[nodiscard]] bool is_child(core::block_index block, const cursor& at,
                              std::span<const core::token_id> part) const {
    return nodes[block].parent == at.block && nodes[block].parent_key == at.key &&
           std::ranges::equal(tokens_of(block), part);
  }

  void hold(core::block_index block) {
    for (; block != core::no_block && nodes[block].holds++ == 0; block = nodes[block].parent) {
      --unheld_count;
      if (evictable.contains(block)) evictable.remove(block);
    }
  }

  void unhold(core::block_index block) {
    for (; block != core::no_block && --nodes[block].holds == 0; block = nodes[block].parent) {
      ++unheld_count;
      if (nodes[block].child_count == 0) evictable.push(block, rank_of(nodes[block], order));
    }
  }

  void use(core::block_index block) {
    ++nodes[block].use_count;
    touch(block);
  }

  void touch(core::block_index block) {
    nodes[block].last_used = tick;
    if (!evictable.contains(block)) return;
    evictable.remove(block);
    evictable.push(block, rank_of(nodes[block], order));
  }

  void add_reference(core::block_index block) {
    pool.add_reference(block);
    if (map.contains(block) && pool.reference_count(block) == 2) hold(block);
  }

  void attach(core::block_index block, const cursor& at, block_key key,
              std::span<const core::token_id> part) {
    YOLK_INVARIANT(pool.reference_count(block) > 0, block);
    pool.add_reference(block);
    map.insert(key, block);
    nodes[block] = {.parent_key = at.key,
                    .parent = at.block,
                    .last_used = tick,
                    .depth = at.block == core::no_block ? 0 : nodes[at.block].depth + 1};
    std::ranges::copy(part, tokens.get() + std::size_t{block} * block_tokens);
    if (at.block != core::no_block) ++nodes[at.block].child_count;
    ++cached_count;
    ++unheld_count;
    hold(block);  // by the caller, who brought it
    tell({cache_event::kind::stored, key});
  }

  void evict_one() {
    const core::block_index block = evictable.pop();
    const node gone = nodes[block];
    const block_key key = map.key_of(block);
    map.erase(block);
    --cached_count;
    --unheld_count;
    ++evicted_total;
    if (gone.parent != core::no_block) {
      node& parent = nodes[gone.parent];
      // Using a child was using its parent, also where only the child was touched (extend).
      parent.last_used = std::max(parent.last_used, gone.last_used);
      if (--parent.child_count == 0 && parent.holds == 0) evictable.push(gone.parent, rank_of(parent, order));
    }
    const bool freed = pool.release(block);
    YOLK_INVARIANT(freed, block, pool.reference_count(block));
    tell({cache_event::kind::evicted, key});
  }

  std::uint32_t adopt(cursor at, std::span<const core::token_id> given,
                      std::span<const core::block_index> blocks) {
    ++tick;
    if (at.block != core::no_block) touch(at.block);
    std::uint32_t adopted = 0;
    const std::size_t count = std::min<std::size_t>(given.size() / block_tokens, blocks.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto part = given.subspan(i * block_tokens, block_tokens);
      const block_key key = chain_key(at.key, part);
      const core::block_index cached = map.find(key);
      if (cached != core::no_block) {
        // Another prefix with the same key: it came first, and this one stays uncached.
        if (!is_child(cached, at, part)) break;
        use(cached);
        at = {cached, key};
        continue;
      }
      attach(blocks[i], at, key, part);
      ++adopted;
      at = {blocks[i], key};
    }
    return adopted;
  }

  void tell(const cache_event& event) const {
    if (listener) listener(event);
  }

  [[nodiscard]] std::string check_structure() const;
  [[nodiscard]] std::string check_references() const;

  block_pool pool;
  std::uint32_t block_tokens;
  chain_function chain_key;
  eviction_order order;
  block_map map;
  eviction_queue evictable;
  std::vector<node> nodes;  // by block
  std::unique_ptr<core::token_id[]>
      tokens;  // by block; written when a block is cached, so memory is taken as it fills
  std::uint64_t tick = 0;
  std::uint32_t cached_count = 0;
  std::uint32_t unheld_count = 0;  // cached blocks without holds: what eviction can reach
  std::uint64_t evicted_total = 0;
  std::function<void(const cache_event&)> listener;
};

prefix_cache::prefix_cache(std::uint32_t block_count, std::uint32_t block_tokens, chain_function chain_key,
                           eviction_order order)
    : tree_(std::make_unique<tree>(block_count, block_tokens, chain_key, order)) {
  YOLK_INVARIANT(block_tokens > 0, block_tokens);
}

prefix_cache::~prefix_cache() = default;

std::vector<cached_block> prefix_cache::match(block_key root, std::span<const core::token_id> tokens,
                                              std::size_t max_tokens) {
  tree& t = *tree_;
  ++t.tick;
  std::vector<cached_block> found;
  cursor at{core::no_block, root};
  const std::size_t count = std::min(tokens.size(), max_tokens) / t.block_tokens;
  for (std::size_t i = 0; i < count; ++i) {
    const auto part = tokens.subspan(i * t.block_tokens, t.block_tokens);
    const block_key key = t.chain_key(at.key, part);
    const core::block_index block = t.child(at, key, part);
    if (block == core::no_block) break;
    t.add_reference(block);
    t.use(block);
    found.push_back({key, block});
    at = {block, key};
  }
  return found;
}

std::uint32_t prefix_cache::match_count(block_key root, std::span<const core::token_id> tokens) const {
  const tree& t = *tree_;
  cursor at{core::no_block, root};
  std::uint32_t matched = 0;
  for (std::size_t begin = 0; begin + t.block_tokens <= tokens.size(); begin += t.block_tokens) {
    const auto part = tokens.subspan(begin, t.block_tokens);
    const block_key key = t.chain_key(at.key, part);
    at = {t.child(at, key, part), key};
    if (at.block == core::no_block) break;
    ++matched;
  }
  return matched;
}

std::optional<std::vector<core::block_index>> prefix_cache::allocate(std::uint32_t count) {
  if (count > available_count()) return std::nullopt;
  std::vector<core::block_index> blocks;
  blocks.reserve(count);
  while (tree_->pool.free_count() < count) tree_->evict_one();
  while (blocks.size() < count) blocks.push_back(*tree_->pool.allocate());
  return blocks;
}

std::uint32_t prefix_cache::insert(block_key root, std::span<const core::token_id> tokens,
                                   std::span<const core::block_index> blocks) {
  return tree_->adopt({core::no_block, root}, tokens, blocks);
}

std::uint32_t prefix_cache::extend(block_key root, block_key parent, std::span<const core::token_id> tokens,
                                   std::span<const core::block_index> blocks) {
  if (parent == root) return insert(root, tokens, blocks);
  const core::block_index block = tree_->map.find(parent);
  if (block == core::no_block) return 0;
  return tree_->adopt({block, parent}, tokens, blocks);
}

std::optional<core::block_index> prefix_cache::find(block_key key) const {
  const core::block_index block = tree_->map.find(key);
  return block == core::no_block ? std::nullopt : std::optional(block);
}

std::vector<block_key> prefix_cache::next_evictions(std::size_t count) const {
  const tree& t = *tree_;
  using entry = std::pair<eviction_rank, core::block_index>;
  std::vector<entry> all;
  t.evictable.for_each([&](eviction_rank rank, core::block_index block) { all.emplace_back(rank, block); });
  std::priority_queue<entry, std::vector<entry>, std::greater<>> queue(std::greater<>(), std::move(all));
  std::unordered_map<core::block_index, node> then;  // once children are gone
  const auto as_then = [&](core::block_index block) -> node& {
    return then.try_emplace(block, t.nodes[block]).first->second;
  };
  std::vector<block_key> keys;
  for (; keys.size() < count && !queue.empty();) {
    const core::block_index block = queue.top().second;
    queue.pop();
    keys.push_back(t.map.key_of(block));
    const node gone = as_then(block);
    if (gone.parent == core::no_block) continue;
    node& parent = as_then(gone.parent);
    parent.last_used = std::max(parent.last_used, gone.last_used);
    if (--parent.child_count == 0 && parent.holds == 0) queue.emplace(rank_of(parent, t.order), gone.parent);
  }
  return keys;
}

void prefix_cache::add_reference(core::block_index block) {
  tree_->add_reference(block);
}

void prefix_cache::release(core::block_index block) {
  const bool freed = tree_->pool.release(block);
  if (!tree_->map.contains(block)) return;
  // The last reference to a cached block is the tree's: who releases it releases what is not theirs.
  YOLK_INVARIANT(!freed, block);
  if (tree_->pool.reference_count(block) == 1) tree_->unhold(block);
}

std::uint32_t prefix_cache::reference_count(core::block_index block) const {
  return tree_->pool.reference_count(block);
}

std::uint32_t prefix_cache::clear() {
  std::uint32_t freed = 0;
  for (; !tree_->evictable.empty(); ++freed) tree_->evict_one();
  return freed;
}

std::uint32_t prefix_cache::block_count() const {
  return tree_->pool.block_count();
}
std::uint32_t prefix_cache::block_tokens() const {
  return tree_->block_tokens;
}
std::uint32_t prefix_cache::free_count() const {
  return tree_->pool.free_count();
}
std::uint32_t prefix_cache::cached_count() const {
  return tree_->cached_count;
}
std::uint32_t prefix_cache::available_count() const {
  return tree_->pool.free_count() + tree_->unheld_count;
}
std::uint64_t prefix_cache::evicted_total() const {
  return tree_->evicted_total;
}

void prefix_cache::set_listener(std::function<void(const cache_event&)> listener) {
  tree_->listener = std::move(listener);
}

std::vector<block_key> prefix_cache::snapshot() const {
  const tree& t = *tree_;
  std::vector<block_key> keys;
  keys.reserve(t.cached_count);
  std::vector<bool> sent(t.nodes.size(), false);
  std::vector<core::block_index> path;
  for (core::block_index block = 0; block < t.nodes.size(); ++block) {
    if (!t.map.contains(block)) continue;
    for (core::block_index at = block; at != core::no_block && !sent[at]; at = t.nodes[at].parent)
      path.push_back(at);
    for (; !path.empty(); path.pop_back()) {
      keys.push_back(t.map.key_of(path.back()));
      sent[path.back()] = true;
    }
  }
  return keys;
}

std::string prefix_cache::tree::check_references() const {
  std::uint32_t held_count = 0;
  std::string first;
  for (core::block_index block = 0; block < nodes.size(); ++block) {
    const std::uint32_t own = map.contains(block) ? 1 : 0;
    const std::uint32_t references = pool.reference_count(block);
    if (references == own) continue;
    if (held_count++ == 0) {
      first = "block " + std::to_string(block) + (own == 1 ? " (cached)" : " (not cached)") + " has " +
              std::to_string(references) + " references, " + std::to_string(own) + " of them the cache's";
    }
  }
  if (held_count == 0) return {};
  return std::to_string(held_count) + " blocks are held beyond the cache; the first: " + first;
}

std::string prefix_cache::tree::check_structure() const {
  std::vector<std::uint32_t> children(nodes.size(), 0);
  std::vector<std::uint32_t> holds(nodes.size(), 0);
  std::uint32_t cached = 0;
  std::uint32_t unheld = 0;
  for (core::block_index block = 0; block < nodes.size(); ++block) {
    if (!map.contains(block)) continue;
    ++cached;
    unheld += nodes[block].holds == 0;
    holds[block] += pool.reference_count(block) > 1;
    if (map.find(map.key_of(block)) != block)
      return "block " + std::to_string(block) + " is not found by its key";
    const core::block_index parent = nodes[block].parent;
    if (parent == core::no_block) continue;
    if (!map.contains(parent)) return "block " + std::to_string(block) + " outlived its parent";
    ++children[parent];
    holds[parent] += nodes[block].holds > 0;
  }
  for (core::block_index block = 0; block < nodes.size(); ++block) {
    const bool leaf = map.contains(block) && children[block] == 0 && holds[block] == 0;
    if (map.contains(block) &&
        (children[block] != nodes[block].child_count || holds[block] != nodes[block].holds))
      return "block " + std::to_string(block) + " has a wrong count of children or holds";
    if (leaf != evictable.contains(block))
      return "block " + std::to_string(block) + " is wrongly (not) evictable";
  }
  if (cached != cached_count || unheld != unheld_count)
    return "the counts of cached or unheld blocks are wrong";
  return {};
}

std::string prefix_cache::audit() const {
  std::string broken = tree_->check_structure();
  return broken.empty() ? tree_->check_references() : broken;
}

}  // namespace yolk::kvcache
