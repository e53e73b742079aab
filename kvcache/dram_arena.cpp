#include "kvcache/dram_arena.hpp"

#include <algorithm>
#include <utility>

#include "core/invariant.hpp"

namespace yolk::kvcache {

namespace {

std::uint32_t slots_in(const dram_arena_options& options) {
  YOLK_INVARIANT(options.block_bytes > 0, options.block_bytes);
  // Indices stay below 2^31 (block_map); a region of so many blocks does not exist.
  constexpr std::uint64_t max_slot_count = 0x7fffffff;
  return static_cast<std::uint32_t>(std::min(options.byte_limit / options.block_bytes, max_slot_count));
}

}  // namespace

dram_arena::dram_arena(const dram_arena_options& options)
    : block_bytes_(options.block_bytes),
      max_pin_count_(options.max_pin_count),
      chain_key_(options.chain_key),
      cache_(slots_in(options), options.block_tokens, options.chain_key, options.order),
      slots_(cache_.block_count()) {
  cache_.set_listener([this](const cache_event& event) {
    ++(event.what == cache_event::kind::stored ? counters_.stored_blocks : counters_.evicted_blocks);
    if (listener_) listener_(event);
  });
}

std::optional<std::vector<arena_slot>> dram_arena::reserve(std::uint32_t count, const arena_lease& lease) {
  const auto blocks = cache_.allocate(count);
  if (!blocks) return std::nullopt;
  std::vector<arena_slot> slots;
  slots.reserve(count);
  for (const core::block_index block : *blocks) {
    slots.push_back({block, ++slots_[block].generation});
    reserved_.emplace(block, lease);
    reservation_ends_.emplace(lease.deadline, block);
  }
  return slots;
}

commit_outcome dram_arena::commit(arena_slot slot, block_header header, block_key root) {
  if (!reserved_.contains(slot.slot) || slots_[slot.slot].generation != slot.generation) {
    ++counters_.dropped_blocks;
    return commit_outcome::stale;
  }
  const commit_outcome outcome = adopt(slot.slot, std::move(header), root);
  if (outcome != commit_outcome::stored) ++counters_.dropped_blocks;
  end_reservation(slot.slot);  // a cached block is now held by the cache alone, a dropped one by nobody
  return outcome;
}

commit_outcome dram_arena::adopt(core::block_index slot, block_header header, block_key root) {
  if (header.tokens.size() != cache_.block_tokens() || header.key != chain_key_(header.parent, header.tokens))
    return commit_outcome::wrong_header;
  const bool is_first = header.parent == root;
  if (!is_first && !cache_.find(header.parent)) return commit_outcome::parent_gone;
  if (!fits(header, root)) return commit_outcome::wrong_header;
  const core::block_index blocks[] = {slot};
  if (cache_.extend(root, header.parent, header.tokens, blocks) == 0) return commit_outcome::already_cached;
  header.generation = slots_[slot].generation;
  slots_[slot].header = std::move(header);
  return commit_outcome::stored;
}

/// A block at a wrong position would be a miss for every reader, and stand in the way of the right one.
bool dram_arena::fits(const block_header& header, block_key root) const {
  if (header.parent == root) return header.first_position == 0;
  const block_header& parent = slots_[*cache_.find(header.parent)].header;
  return header.first_position == parent.first_position + cache_.block_tokens();
}

bool dram_arena::abandon(arena_slot slot) {
  if (!reserved_.contains(slot.slot) || slots_[slot.slot].generation != slot.generation) return false;
  end_reservation(slot.slot);
  return true;
}

pinned_prefix dram_arena::match(block_key root, std::span<const core::token_id> tokens,
                                std::size_t max_tokens, const arena_lease& lease) {
  const std::size_t asked =
      std::min(tokens.size(), max_tokens) / cache_.block_tokens() * cache_.block_tokens();
  pinned_prefix prefix = pin(root, tokens, max_tokens, lease);
  const std::size_t hit = prefix.blocks.size() * cache_.block_tokens();
  counters_.hit_tokens += hit;
  counters_.miss_tokens += asked - hit;
  return prefix;
}

pinned_prefix dram_arena::pin(block_key root, std::span<const core::token_id> tokens, std::size_t max_tokens,
                              const arena_lease& lease) {
  pinned_prefix prefix;
  held_slots held{lease, {}};
  if (pins_.size() < max_pin_count_) {
    for (const cached_block& found : cache_.match(root, tokens, max_tokens)) {
      const slot_state& state = slots_[found.block];
      prefix.blocks.push_back({{found.block, state.generation}, &state.header});
      held.slots.push_back(found.block);
    }
  }
  if (!held.slots.empty()) prefix.id = keep(std::move(held));
  return prefix;
}

pin_id dram_arena::pin(std::span<const arena_slot> slots, const arena_lease& lease) {
  const auto is_cached = [&](const arena_slot& slot) {
    return slots_[slot.slot].generation == slot.generation && !reserved_.contains(slot.slot) &&
           cache_.find(slots_[slot.slot].header.key) == slot.slot;
  };
  if (slots.empty() || pins_.size() >= max_pin_count_ || !std::ranges::all_of(slots, is_cached)) return {};
  held_slots held{lease, {}};
  for (const arena_slot& slot : slots) {
    cache_.add_reference(slot.slot);
    held.slots.push_back(slot.slot);
  }
  return keep(std::move(held));
}

pin_id dram_arena::keep(held_slots held) {
  const pin_id id{++last_pin_};
  pin_ends_.emplace(held.lease.deadline, id);
  pins_.emplace(id, std::move(held));
  return id;
}

std::optional<pinned_prefix::block> dram_arena::find(block_key key) const {
  const auto slot = cache_.find(key);
  if (!slot) return std::nullopt;
  return pinned_prefix::block{{*slot, slots_[*slot].generation}, &slots_[*slot].header};
}

bool dram_arena::unpin(pin_id id) {
  if (!pins_.contains(id)) return false;
  end_pin(id);
  return true;
}

std::uint32_t dram_arena::expire(core::time_point now) {
  std::uint32_t ended = 0;
  while (!reservation_ends_.empty() && reservation_ends_.begin()->first <= now) {
    end_reservation(reservation_ends_.begin()->second);
    ++counters_.expired_reservations;
    ++ended;
  }
  while (!pin_ends_.empty() && pin_ends_.begin()->first <= now) {
    end_pin(pin_ends_.begin()->second);
    ++counters_.expired_pins;
    ++ended;
  }
  return ended;
}

std::uint32_t dram_arena::end_owner(core::worker_id owner) {
  std::vector<core::block_index> slots;
  for (const auto& [slot, lease] : reserved_)
    if (lease.owner == owner) slots.push_back(slot);
  std::vector<pin_id> ids;
  for (const auto& [id, held] : pins_)
    if (held.lease.owner == owner) ids.push_back(id);
  // In a fixed order, so that the free list does not depend on the hash tables.
  std::ranges::sort(slots);
  std::ranges::sort(ids);
  for (const core::block_index slot : slots) end_reservation(slot);
  for (const pin_id id : ids) end_pin(id);
  return static_cast<std::uint32_t>(slots.size() + ids.size());
}

std::optional<core::time_point> dram_arena::next_deadline() const {
  std::optional<core::time_point> next;
  if (!reservation_ends_.empty()) next = reservation_ends_.begin()->first;
  if (!pin_ends_.empty() && (!next || pin_ends_.begin()->first < *next)) next = pin_ends_.begin()->first;
  return next;
}

void dram_arena::end_reservation(core::block_index slot) {
  const auto it = reserved_.find(slot);
  YOLK_INVARIANT(it != reserved_.end(), slot);
  reservation_ends_.erase({it->second.deadline, slot});
  reserved_.erase(it);
  cache_.release(slot);
}

void dram_arena::end_pin(pin_id id) {
  const auto it = pins_.find(id);
  YOLK_INVARIANT(it != pins_.end(), id.value);
  for (const core::block_index slot : it->second.slots) cache_.release(slot);
  pin_ends_.erase({it->second.lease.deadline, id});
  pins_.erase(it);
}

std::string dram_arena::audit() const {
  if (!reserved_.empty()) return std::to_string(reserved_.size()) + " slots are reserved";
  if (!pins_.empty()) return std::to_string(pins_.size()) + " pins are left";
  return cache_.audit();
}

}  // namespace yolk::kvcache
