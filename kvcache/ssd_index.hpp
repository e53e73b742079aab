#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvcache/block_header.hpp"
#include "kvcache/log_record.hpp"
#include "kvcache/prefix_cache.hpp"

namespace yolk::kvcache {

/// Which prefixes a log holds, and where: a tree of blocks, found by key and proved by tokens from the root
/// on, as prefix_cache does. A block stays in the tree without a payload while others continue it, so that
/// those stay proved. Knows no files; owned by ssd_log; not thread-safe.
class ssd_index {
 public:
  enum class payload : std::uint8_t { none, being_written, stored };
  struct node {
    record_id id;
    block_key parent;     ///< the root, for a first block
    record_id parent_id;  ///< none for a first block
    std::vector<core::token_id> tokens;
    std::uint32_t first_position = 0;
    std::uint32_t child_count = 0;
    payload state = payload::none;
    record_place place;           ///< unless state is none
    std::uint64_t last_used = 0;  ///< the tick of its last match; 0 = never
  };
  enum class added : std::uint8_t {
    ok,            ///< being_written now
    present,       ///< stored, or being written, already
    orphan,        ///< the block that it continues is not in the tree
    wrong_header,  ///< key, tokens and position do not fit together, or its key is another prefix's
    full,          ///< max_nodes
  };

  ssd_index(std::uint32_t block_tokens, std::size_t max_nodes)
      : block_tokens_(block_tokens), max_nodes_(max_nodes) {}

  /// Enters the block of `header` (at position 0: a first block, its parent is the root) as being written to
  /// `place`. `id` is taken if the prefix has none yet.
  added add(const block_header& header, record_id id, const record_place& place);
  /// Enters a record that was read back: parents first. False when its parent is not known by its id, or its
  /// key is another prefix's. Of two records of one prefix the later call's place is kept.
  bool restore(const record_head& head, const record_place& place);
  /// Ids of prefixes that were entered twice are forgotten: no restore() follows.
  void end_restore() { aliases_.clear(); }

  void written(block_key key, const record_place& place);
  /// The payload at `place` is gone or bad. Nothing when that is not the block's place (any more).
  void lose(block_key key, const record_place& place);

  /// Keys of the blocks that continue the first `skip_blocks` of `tokens` and are stored, up to the first
  /// that is not. Empty unless the skipped ones are in the tree too. Refreshes what it finds.
  [[nodiscard]] std::vector<block_key> match(block_key root, std::span<const core::token_id> tokens,
                                             std::size_t skip_blocks, std::size_t max_tokens);
  [[nodiscard]] const node* find(block_key key) const;
  [[nodiscard]] bool stored(block_key key) const;
  [[nodiscard]] std::vector<block_key> snapshot() const;  ///< stored ones
  [[nodiscard]] std::size_t stored_count() const { return stored_count_; }
  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }

  /// Called on every change of what is stored, from within; it must not call the index.
  void set_listener(std::function<void(const cache_event&)> listener) { listener_ = std::move(listener); }
  /// Empty when the tree fits together.
  [[nodiscard]] std::string audit() const;

 private:
  using map = std::unordered_map<block_key, node>;
  [[nodiscard]] static bool same_prefix(const node& known, const block_header& header, bool is_first);
  void set_stored(block_key key, node& what, bool is_stored);
  void remove_unused(map::iterator from);

  std::uint32_t block_tokens_;
  std::size_t max_nodes_;
  map nodes_;
  std::size_t stored_count_ = 0;
  std::uint64_t tick_ = 0;
  std::unordered_map<std::uint64_t, std::unordered_map<std::uint64_t, block_key>> aliases_;
  std::function<void(const cache_event&)> listener_;
};

}  // namespace yolk::kvcache
