#include "kvcache/cache_index.hpp"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "kvcache/holder_table.hpp"

namespace yolk::kvcache {

namespace {

struct holder_state {
  core::incarnation incarnation;
  std::uint64_t last_sequence = 0;  // applied, or covered by the snapshot
  bool in_sync = true;              // false: no keys are known until a snapshot comes
  bool removed = false;
  holder_table::holder number = 0;  // in the table
  std::size_t key_count = 0;
};

}  // namespace

struct cache_index::state {
  cache_index_limits limits;
  std::unordered_map<core::worker_id, holder_state> holders;
  std::deque<core::worker_id> removed;  // first removed first; may name holders that came back
  holder_table table;
  std::vector<core::worker_id> names;  // by number
  std::vector<holder_table::holder> free_numbers;
  std::vector<holder_table::match> found;  // of the last call of matches
  std::vector<match> named;

  void store(holder_state& known, block_key key) {
    if (known.key_count < limits.keys_per_holder && table.insert(key, known.number)) ++known.key_count;
  }

  void take(holder_state& known, block_key key) {
    if (table.erase(key, known.number)) --known.key_count;
  }

  void forget_keys(holder_state& known) {
    if (known.key_count > 0) table.erase_all(known.number);
    known.key_count = 0;
  }

  void make_void(holder_state& known) {
    known.in_sync = false;
    forget_keys(known);
  }

  /// The holder's entry, new ones with a number. Null when there are as many as the table can tell apart.
  holder_state* find_or_add(core::worker_id holder, bool& is_new) {
    const auto found_at = holders.find(holder);
    is_new = found_at == holders.end();
    if (!is_new) return &found_at->second;
    holder_state fresh;
    if (!free_numbers.empty()) {
      fresh.number = free_numbers.back();
      free_numbers.pop_back();
      names[fresh.number] = holder;
    } else {
      if (names.size() >= holder_table::most_holders) return nullptr;
      fresh.number = static_cast<holder_table::holder>(names.size());
      names.push_back(holder);
    }
    return &holders.emplace(holder, fresh).first->second;
  }

  /// Another life of the holder, of which nothing is known yet.
  void begin(holder_state& known, core::incarnation incarnation, std::uint64_t last_sequence) {
    forget_keys(known);
    known = {.incarnation = incarnation, .last_sequence = last_sequence, .number = known.number};
  }
};

cache_index::cache_index(cache_index_limits limits) : state_(std::make_unique<state>()) {
  state_->limits = limits;
}

cache_index::~cache_index() = default;

cache_index::applied cache_index::apply(core::worker_id holder, core::incarnation incarnation,
                                        std::uint64_t sequence, std::span<const cache_event> events) {
  bool is_new = false;
  holder_state* found = state_->find_or_add(holder, is_new);
  if (found == nullptr) return applied::stale;
  holder_state& known = *found;
  if (!is_new && incarnation < known.incarnation) return applied::stale;
  if (is_new || known.incarnation < incarnation) state_->begin(known, incarnation, 0);
  if (sequence <= known.last_sequence) return applied::stale;
  if (!known.in_sync || sequence != known.last_sequence + 1) {
    state_->make_void(known);
    return applied::needs_snapshot;
  }
  for (const cache_event& event : events) {
    if (event.what == cache_event::kind::stored) {
      state_->store(known, event.key);
    } else {
      state_->take(known, event.key);
    }
  }
  known.last_sequence = sequence;
  return applied::ok;
}

void cache_index::replace(core::worker_id holder, core::incarnation incarnation, std::uint64_t sequence,
                          std::span<const block_key> keys) {
  bool is_new = false;
  holder_state* known = state_->find_or_add(holder, is_new);
  if (known == nullptr) return;
  if (!is_new && incarnation < known->incarnation) return;
  // Within an incarnation a snapshot that was overtaken by events would roll them back.
  if (!is_new && incarnation == known->incarnation && sequence < known->last_sequence) return;
  state_->begin(*known, incarnation, sequence);
  for (const block_key key : keys) state_->store(*known, key);
}

void cache_index::remove(core::worker_id holder) {
  const auto it = state_->holders.find(holder);
  if (it == state_->holders.end() || it->second.removed) return;
  state_->make_void(it->second);
  it->second.removed = true;
  state_->removed.push_back(holder);
  if (state_->removed.size() <= state_->limits.removed_holders) return;
  const auto first = state_->holders.find(state_->removed.front());
  state_->removed.pop_front();
  if (first == state_->holders.end() || !first->second.removed) return;
  state_->free_numbers.push_back(first->second.number);
  state_->holders.erase(first);
}

std::span<const cache_index::match> cache_index::matches(std::span<const block_key> keys) const {
  state_->table.leading(keys, state_->found);
  state_->named.clear();
  for (const auto& [who, leading] : state_->found) state_->named.push_back({state_->names[who], leading});
  std::ranges::sort(state_->named, {}, &match::holder);
  return state_->named;
}

std::uint32_t cache_index::leading(core::worker_id holder, std::span<const block_key> keys) const {
  const auto it = state_->holders.find(holder);
  if (it == state_->holders.end()) return 0;
  std::uint32_t count = 0;
  while (count < keys.size() && state_->table.contains(keys[count], it->second.number)) ++count;
  return count;
}

std::size_t cache_index::block_count() const {
  std::size_t count = 0;
  for (const auto& [holder, known] : state_->holders) count += known.key_count;
  return count;
}

std::size_t cache_index::memory_bytes() const {
  return state_->table.memory_bytes();
}

}  // namespace yolk::kvcache
