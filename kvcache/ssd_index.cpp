#include "kvcache/ssd_index.hpp"

#include <algorithm>
#include <utility>

#include "core/invariant.hpp"

namespace yolk::kvcache {

bool ssd_index::same_prefix(const node& known, const block_header& header, bool is_first) {
  // A key has one node, and a parent stays while it has children: the same parent key is the same prefix.
  return known.parent == header.parent && (known.parent_id == record_id{}) == is_first &&
         known.tokens == header.tokens;
}

ssd_index::added ssd_index::add(const block_header& header, record_id id, const record_place& place) {
  const bool is_first = header.first_position == 0;
  if (header.tokens.size() != block_tokens_ || header.key != chain(header.parent, header.tokens))
    return added::wrong_header;
  const auto parent = is_first ? nodes_.end() : nodes_.find(header.parent);
  if (!is_first && parent == nodes_.end()) return added::orphan;
  const std::uint32_t position = is_first ? 0 : parent->second.first_position + block_tokens_;
  if (header.first_position != position) return added::wrong_header;
  if (const auto known = nodes_.find(header.key); known != nodes_.end()) {
    if (!same_prefix(known->second, header, is_first)) return added::wrong_header;
    if (known->second.state != payload::none) return added::present;
    known->second.state = payload::being_written;
    known->second.place = place;
    return added::ok;
  }
  if (nodes_.size() >= max_nodes_) return added::full;
  node fresh{.id = id,
             .parent = header.parent,
             .parent_id = is_first ? record_id{} : parent->second.id,
             .tokens = header.tokens,
             .first_position = position,
             .state = payload::being_written,
             .place = place};
  if (!is_first) ++parent->second.child_count;
  nodes_.emplace(header.key, std::move(fresh));
  return added::ok;
}

bool ssd_index::restore(const record_head& head, const record_place& place) {
  const auto& header = head.header;
  const bool is_first = head.parent_id == record_id{};
  if (header.tokens.size() != block_tokens_ || header.key != chain(header.parent, header.tokens))
    return false;
  auto parent = nodes_.end();
  if (!is_first) {
    const auto& of_log = aliases_[head.parent_id.log];
    const auto alias = of_log.find(head.parent_id.number);
    if (alias == of_log.end() || alias->second != header.parent) return false;
    parent = nodes_.find(header.parent);
    YOLK_INVARIANT(parent != nodes_.end(), to_string(header.parent));
  }
  if (header.first_position != (is_first ? 0 : parent->second.first_position + block_tokens_)) return false;
  const auto known = nodes_.find(header.key);
  if (known != nodes_.end()) {
    if (!same_prefix(known->second, header, is_first)) return false;
    known->second.place = place;
  } else {
    if (nodes_.size() >= max_nodes_) return false;
    node fresh{.id = head.id,
               .parent = header.parent,
               .parent_id = is_first ? record_id{} : parent->second.id,
               .tokens = header.tokens,
               .first_position = header.first_position,
               .place = place};
    if (!is_first) ++parent->second.child_count;
    set_stored(header.key, nodes_.emplace(header.key, std::move(fresh)).first->second, true);
  }
  aliases_[head.id.log].insert_or_assign(head.id.number, header.key);
  return true;
}

void ssd_index::set_stored(block_key key, node& what, bool is_stored) {
  const bool was = what.state == payload::stored;
  what.state = is_stored ? payload::stored : payload::none;
  if (was == is_stored) return;
  stored_count_ += is_stored ? 1 : -1;
  if (listener_) listener_({is_stored ? cache_event::kind::stored : cache_event::kind::evicted, key});
}

void ssd_index::written(block_key key, const record_place& place) {
  const auto found = nodes_.find(key);
  if (found == nodes_.end() || found->second.state == payload::none || found->second.place != place) return;
  set_stored(key, found->second, true);
}

void ssd_index::lose(block_key key, const record_place& place) {
  const auto found = nodes_.find(key);
  if (found == nodes_.end() || found->second.state == payload::none || found->second.place != place) return;
  set_stored(key, found->second, false);
  remove_unused(found);
}

/// Removes a node that nobody continues, and then those before it that were there for its sake alone.
void ssd_index::remove_unused(map::iterator from) {
  while (from != nodes_.end() && from->second.state == payload::none && from->second.child_count == 0) {
    const bool is_first = from->second.parent_id == record_id{};
    const block_key parent_key = from->second.parent;
    nodes_.erase(from);
    if (is_first) return;
    from = nodes_.find(parent_key);
    YOLK_INVARIANT(from != nodes_.end() && from->second.child_count > 0, to_string(parent_key));
    --from->second.child_count;
  }
}

std::vector<block_key> ssd_index::match(block_key root, std::span<const core::token_id> tokens,
                                        std::size_t skip_blocks, std::size_t max_tokens) {
  std::vector<block_key> found;
  ++tick_;
  block_key at = root;
  const std::size_t count = std::min(tokens.size(), max_tokens) / block_tokens_;
  for (std::size_t i = 0; i < count; ++i) {
    const auto part = tokens.subspan(i * block_tokens_, block_tokens_);
    const block_key key = chain(at, part);
    const auto next = nodes_.find(key);
    if (next == nodes_.end()) break;
    node& block = next->second;
    if (block.parent != at || (block.parent_id == record_id{}) != (i == 0) ||
        !std::ranges::equal(block.tokens, part))
      break;
    if (i >= skip_blocks) {
      if (block.state != payload::stored) break;
      found.push_back(key);
    }
    block.last_used = tick_;
    at = key;
  }
  return found;
}

const ssd_index::node* ssd_index::find(block_key key) const {
  const auto found = nodes_.find(key);
  return found == nodes_.end() ? nullptr : &found->second;
}

bool ssd_index::stored(block_key key) const {
  const node* found = find(key);
  return found != nullptr && found->state == payload::stored;
}

std::vector<block_key> ssd_index::snapshot() const {
  std::vector<block_key> keys;
  keys.reserve(stored_count_);
  for (const auto& [key, what] : nodes_)
    if (what.state == payload::stored) keys.push_back(key);
  return keys;
}

std::string ssd_index::audit() const {
  std::unordered_map<block_key, std::uint32_t> children;
  std::size_t stored = 0;
  for (const auto& [key, what] : nodes_) {
    stored += what.state == payload::stored;
    if (what.parent_id == record_id{}) continue;
    ++children[what.parent];
    const node* parent = find(what.parent);
    if (parent == nullptr || parent->id != what.parent_id)
      return "block " + to_string(key) + " outlived its parent";
    if (parent->first_position + block_tokens_ != what.first_position)
      return "block " + to_string(key) + " does not follow its parent";
  }
  for (const auto& [key, what] : nodes_) {
    const auto counted = children.find(key);
    if (what.child_count != (counted == children.end() ? 0 : counted->second))
      return "block " + to_string(key) + " has a wrong count of children";
    if (what.state == payload::none && what.child_count == 0)
      return "block " + to_string(key) + " is there for nothing";
  }
  if (stored != stored_count_) return "the count of stored blocks is wrong";
  return {};
}

}  // namespace yolk::kvcache
