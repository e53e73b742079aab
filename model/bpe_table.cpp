#include "model/bpe_table.hpp"

#include <bit>
#include <functional>

namespace yolk::model {

namespace {

std::uint32_t hash_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(bytes));
}

}  // namespace

void token_table::set(core::token_id id, std::string_view bytes) {
  entries_[id] = {static_cast<std::uint32_t>(arena_.size()), static_cast<std::uint32_t>(bytes.size())};
  arena_.append(bytes);
}

void token_table::index(const std::vector<core::token_id>& ids) {
  slots_.assign(std::bit_ceil(ids.size() * 2 + 2), {});
  const std::size_t mask = slots_.size() - 1;
  for (const core::token_id id : ids) {
    const std::uint32_t hash = hash_of(bytes(id));
    std::size_t at = hash & mask;
    while (slots_[at].id != no_token) at = (at + 1) & mask;
    slots_[at] = {hash, id};
  }
}

core::token_id token_table::find(std::string_view wanted) const {
  if (slots_.empty()) return no_token;
  const std::size_t mask = slots_.size() - 1;
  const std::uint32_t hash = hash_of(wanted);
  for (std::size_t at = hash & mask; slots_[at].id != no_token; at = (at + 1) & mask) {
    if (slots_[at].hash == hash && bytes(slots_[at].id) == wanted) return slots_[at].id;
  }
  return no_token;
}

merge_table::merge_table(std::size_t merge_count) : slots_(std::bit_ceil(merge_count * 2 + 2)) {}

std::size_t merge_table::place(std::uint64_t key) const {
  // Fibonacci hashing, folded: the ids of neighbouring merges are neighbours too.
  std::uint64_t mixed = key * 0x9E3779B97F4A7C15ull;
  mixed ^= mixed >> 32;
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = mixed & mask;
  while (slots_[at].key != key && slots_[at].value.result != no_token) at = (at + 1) & mask;
  return at;
}

void merge_table::set(core::token_id left, core::token_id right, merge value) {
  const std::uint64_t key = (static_cast<std::uint64_t>(left) << 32) | right;
  slots_[place(key)] = {key, value};
}

merge_table::merge merge_table::find(core::token_id left, core::token_id right) const {
  return slots_[place((static_cast<std::uint64_t>(left) << 32) | right)].value;
}

}  // namespace yolk::model
