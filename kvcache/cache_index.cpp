#include "kvcache/cache_index.hpp"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "kvcache/key_set.hpp"

namespace yolk::kvcache {

namespace {

struct holder_state {
  core::incarnation incarnation;
  std::uint64_t last_sequence = 0;  // applied, or covered by the snapshot
  bool in_sync = true;              // false: keys is empty until a snapshot comes
  bool removed = false;
  key_set keys;

  void store(block_key key, const cache_index_limits& limits) {
    if (keys.size() < limits.keys_per_holder) keys.insert(key);
  }

  void make_void() {
    in_sync = false;
    keys.clear();
  }
};

}  // namespace

struct cache_index::state {
  cache_index_limits limits;
  std::unordered_map<core::worker_id, holder_state> holders;
  std::deque<core::worker_id> removed;  // first removed first; may name holders that came back
};

cache_index::cache_index(cache_index_limits limits) : state_(std::make_unique<state>()) {
  state_->limits = limits;
}

cache_index::~cache_index() = default;

cache_index::applied cache_index::apply(core::worker_id holder, core::incarnation incarnation,
                                        std::uint64_t sequence, std::span<const cache_event> events) {
  auto [it, is_new] = state_->holders.try_emplace(holder);
  holder_state& known = it->second;
  if (!is_new && incarnation < known.incarnation) return applied::stale;
  if (is_new || known.incarnation < incarnation) known = {.incarnation = incarnation};
  if (sequence <= known.last_sequence) return applied::stale;
  if (!known.in_sync || sequence != known.last_sequence + 1) {
    known.make_void();
    return applied::needs_snapshot;
  }
  for (const cache_event& event : events) {
    if (event.what == cache_event::kind::stored) {
      known.store(event.key, state_->limits);
    } else {
      known.keys.erase(event.key);
    }
  }
  known.last_sequence = sequence;
  return applied::ok;
}

void cache_index::replace(core::worker_id holder, core::incarnation incarnation, std::uint64_t sequence,
                          std::span<const block_key> keys) {
  auto [it, is_new] = state_->holders.try_emplace(holder);
  holder_state& known = it->second;
  if (!is_new && incarnation < known.incarnation) return;
  // Within an incarnation a snapshot that was overtaken by events would roll them back.
  if (!is_new && incarnation == known.incarnation && sequence < known.last_sequence) return;
  known = {.incarnation = incarnation, .last_sequence = sequence};
  known.keys.reserve(std::min(keys.size(), state_->limits.keys_per_holder));
  for (const block_key key : keys) known.store(key, state_->limits);
}

void cache_index::remove(core::worker_id holder) {
  const auto it = state_->holders.find(holder);
  if (it == state_->holders.end() || it->second.removed) return;
  it->second.make_void();
  it->second.removed = true;
  state_->removed.push_back(holder);
  if (state_->removed.size() <= state_->limits.removed_holders) return;
  const auto first = state_->holders.find(state_->removed.front());
  state_->removed.pop_front();
  if (first != state_->holders.end() && first->second.removed) state_->holders.erase(first);
}

std::uint32_t cache_index::leading(core::worker_id holder, std::span<const block_key> keys) const {
  const auto it = state_->holders.find(holder);
  if (it == state_->holders.end()) return 0;
  std::uint32_t count = 0;
  while (count < keys.size() && it->second.keys.contains(keys[count])) ++count;
  return count;
}

std::size_t cache_index::block_count() const {
  std::size_t count = 0;
  for (const auto& [holder, known] : state_->holders) count += known.keys.size();
  return count;
}

std::size_t cache_index::memory_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [holder, known] : state_->holders) bytes += known.keys.memory_bytes();
  return bytes;
}

}  // namespace yolk::kvcache
