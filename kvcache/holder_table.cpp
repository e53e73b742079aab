#include "kvcache/holder_table.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/invariant.hpp"

namespace yolk::kvcache {

namespace {
/// So many keys ahead their slots are asked for: a probe waits for memory, not for arithmetic.
constexpr std::size_t prefetch_distance = 8;
constexpr std::size_t word_bits = 64;
}  // namespace

std::uint64_t holder_table::tag_of(block_key key) {
  std::uint64_t z = key.high ^ (key.low * 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93u;
  return z ^ (z >> 32) ^ key.low;
}

/// The slot of the tag, or the free one where it would go. The table must have a free slot.
std::size_t holder_table::find_slot(std::uint64_t tag) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = tag & mask;
  while (!is_free(slots_[at]) && slots_[at].tag != tag) at = (at + 1) & mask;
  return at;
}

std::span<std::uint64_t> holder_table::bits_of(const slot& at) {
  const std::size_t number = at.holders[1] | std::size_t{at.holders[2]} << 16;
  return {bits_.data() + number * stride_, stride_};
}

std::span<const std::uint64_t> holder_table::bits_of(const slot& at) const {
  const std::size_t number = at.holders[1] | std::size_t{at.holders[2]} << 16;
  return {bits_.data() + number * stride_, stride_};
}

bool holder_table::has(const slot& at, holder who) const {
  if (at.holders[0] != wide) return std::ranges::find(at.holders, who) != at.holders.end();
  const auto bits = bits_of(at);
  return who / word_bits < bits.size() && (bits[who / word_bits] >> (who % word_bits) & 1) != 0;
}

void holder_table::make_room_for(holder who) {
  const std::size_t needed = who / word_bits + 1;
  if (needed <= stride_) return;
  const std::size_t stride = std::bit_ceil(needed);
  std::vector<std::uint64_t> larger(bits_.size() / stride_ * stride);
  for (std::size_t from = 0, to = 0; from < bits_.size(); from += stride_, to += stride)
    std::copy_n(bits_.begin() + static_cast<std::ptrdiff_t>(from), stride_,
                larger.begin() + static_cast<std::ptrdiff_t>(to));
  bits_ = std::move(larger);
  stride_ = stride;
}

void holder_table::widen(slot& at) {
  const auto before = at.holders;
  for (const holder who : before) make_room_for(who);
  std::uint32_t number = 0;
  if (free_bits_.empty()) {
    number = static_cast<std::uint32_t>(bits_.size() / stride_);
    bits_.resize(bits_.size() + stride_);
  } else {
    number = free_bits_.back();
    free_bits_.pop_back();
  }
  at.holders = {wide, static_cast<holder>(number & 0xffff), static_cast<holder>(number >> 16), none};
  const auto bits = bits_of(at);
  std::ranges::fill(bits, 0u);
  for (const holder who : before) bits[who / word_bits] |= std::uint64_t{1} << (who % word_bits);
}

void holder_table::add(slot& at, holder who) {
  if (at.holders[0] != wide) {
    const auto free = std::ranges::find(at.holders, none);
    if (free != at.holders.end()) {
      *free = who;
      return;
    }
    widen(at);
  }
  make_room_for(who);
  bits_of(at)[who / word_bits] |= std::uint64_t{1} << (who % word_bits);
}

void holder_table::take(slot& at, holder who) {
  if (at.holders[0] != wide) {
    const auto found = std::ranges::find(at.holders, who);
    std::shift_left(found, at.holders.end(), 1);
    at.holders.back() = none;
    return;
  }
  const auto bits = bits_of(at);
  bits[who / word_bits] &= ~(std::uint64_t{1} << (who % word_bits));
  std::size_t count = 0;
  for (const std::uint64_t word : bits) count += static_cast<std::size_t>(std::popcount(word));
  // One less than what fits, so that a holder that comes and goes does not move the key each time.
  if (count >= inline_holders) return;
  std::array<holder, inline_holders> left{none, none, none, none};
  std::size_t next = 0;
  for (std::size_t word = 0; word < bits.size(); ++word)
    for (std::uint64_t rest = bits[word]; rest != 0; rest &= rest - 1)
      left[next++] = static_cast<holder>(word * word_bits + static_cast<std::size_t>(std::countr_zero(rest)));
  free_bits_.push_back(at.holders[1] | std::uint32_t{at.holders[2]} << 16);
  at.holders = left;
}

bool holder_table::insert(block_key key, holder who) {
  YOLK_INVARIANT(who < most_holders, who);
  if ((used_ + 1) * 4 > slots_.size() * 3) rebuild(std::max(least_slots, slots_.size() * 2));
  const std::uint64_t tag = tag_of(key);
  slot& at = slots_[find_slot(tag)];
  if (is_free(at)) {
    at.tag = tag;
    at.holders[0] = who;
    ++used_;
    return true;
  }
  if (has(at, who)) return false;
  add(at, who);
  return true;
}

bool holder_table::erase(block_key key, holder who) {
  if (slots_.empty()) return false;
  const std::size_t at = find_slot(tag_of(key));
  if (is_free(slots_[at]) || !has(slots_[at], who)) return false;
  take(slots_[at], who);
  if (is_free(slots_[at])) free_slot(at);
  return true;
}

/// The slot is free already; moves back every later one of the run that it would cut off from its home.
void holder_table::free_slot(std::size_t hole) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = (hole + 1) & mask; !is_free(slots_[at]); at = (at + 1) & mask) {
    if (((at - slots_[at].tag) & mask) < ((at - hole) & mask)) continue;
    slots_[hole] = std::exchange(slots_[at], slot{});
    hole = at;
  }
  --used_;
  if (slots_.size() > least_slots && used_ * 4 < slots_.size()) rebuild(slots_.size() / 2);
}

void holder_table::erase_all(holder who) {
  for (slot& at : slots_) {
    if (is_free(at) || !has(at, who)) continue;
    take(at, who);
    if (is_free(at)) --used_;
  }
  // Freed slots have cut runs: all are placed anew.
  std::size_t slot_count = slots_.size();
  while (slot_count > least_slots && used_ * 4 < slot_count) slot_count /= 2;
  if (slot_count > 0) rebuild(slot_count);
}

bool holder_table::contains(block_key key, holder who) const {
  if (slots_.empty()) return false;
  const slot& at = slots_[find_slot(tag_of(key))];
  return !is_free(at) && has(at, who);
}

void holder_table::leading(std::span<const block_key> keys, std::vector<match>& matches) const {
  matches.clear();
  if (slots_.empty() || keys.empty()) return;
  const slot& first = slots_[find_slot(tag_of(keys[0]))];
  if (is_free(first)) return;
  if (first.holders[0] != wide) {
    for (const holder who : first.holders)
      if (who != none) matches.push_back({who, 1});
  } else {
    const auto bits = bits_of(first);
    for (std::size_t word = 0; word < bits.size(); ++word)
      for (std::uint64_t rest = bits[word]; rest != 0; rest &= rest - 1)
        matches.push_back(
            {static_cast<holder>(word * word_bits + static_cast<std::size_t>(std::countr_zero(rest))), 1});
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t next = 1; next < std::min(prefetch_distance, keys.size()); ++next)
    __builtin_prefetch(&slots_[tag_of(keys[next]) & mask]);
  // Those that have all keys so far stand first.
  std::size_t still = matches.size();
  for (std::size_t index = 1; index < keys.size() && still > 0; ++index) {
    if (index + prefetch_distance <= keys.size() - 1)
      __builtin_prefetch(&slots_[tag_of(keys[index + prefetch_distance - 1]) & mask]);
    const slot& at = slots_[find_slot(tag_of(keys[index]))];
    if (is_free(at)) return;
    for (std::size_t i = 0; i < still;) {
      if (has(at, matches[i].who)) {
        ++matches[i++].leading;
      } else {
        std::swap(matches[i], matches[--still]);
      }
    }
  }
}

std::size_t holder_table::memory_bytes() const {
  return slots_.capacity() * sizeof(slot) + bits_.capacity() * sizeof(std::uint64_t) +
         free_bits_.capacity() * sizeof(std::uint32_t);
}

void holder_table::rebuild(std::size_t slot_count) {
  const std::vector<slot> old = std::exchange(slots_, std::vector<slot>(slot_count));
  for (const slot& at : old)
    if (!is_free(at)) slots_[find_slot(at.tag)] = at;
}

}  // namespace yolk::kvcache
