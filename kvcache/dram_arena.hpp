#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "kvcache/block_header.hpp"
#include "kvcache/block_key.hpp"
#include "kvcache/prefix_cache.hpp"

namespace yolk::kvcache {

struct dram_arena_options {
  std::uint64_t byte_limit = 0;  ///< of the payload; what is less than a block more stays unused
  std::size_t block_bytes = 0;
  std::uint32_t block_tokens = 16;
  std::uint32_t max_pin_count = 4096;  ///< beyond, a match finds nothing
  prefix_cache::chain_function chain_key = &chain;
  eviction_order order = eviction_order::lru;
};

/// A slot in one of its lives: the generation is raised each time that the slot is reserved.
struct arena_slot {
  core::block_index slot = core::no_block;
  std::uint32_t generation = 0;
  friend bool operator==(const arena_slot&, const arena_slot&) = default;
};

/// Who asked for slots, and when they go back although nothing more is heard from them.
struct arena_lease {
  core::worker_id owner;
  core::time_point deadline;
};

using pin_id = core::strong_id<struct pin_tag, std::uint64_t>;

/// Cached blocks that a transfer may read: none of them is evicted before unpin() or the deadline.
struct pinned_prefix {
  struct block {
    arena_slot slot;
    const block_header* header = nullptr;  ///< the arena's; valid while the pin lives
  };
  pin_id id;  ///< 0 when nothing was found: there is nothing to unpin then
  std::vector<block> blocks;
};

struct dram_arena_counters {
  std::uint64_t hit_tokens = 0;
  std::uint64_t miss_tokens = 0;  ///< of the whole blocks asked for
  std::uint64_t stored_blocks = 0;
  std::uint64_t evicted_blocks = 0;
  std::uint64_t dropped_blocks = 0;  ///< committed, but duplicate, orphaned, stale or wrong
  std::uint64_t expired_reservations = 0;
  std::uint64_t expired_pins = 0;
};

enum class commit_outcome : std::uint8_t {
  stored,
  already_cached,  ///< the same prefix is cached in another slot; this one is free again
  parent_gone,     ///< its prefix is not cached any more; the slot is free again
  wrong_header,    ///< key, token count or position do not fit together; the slot is free again
  stale,           ///< not (or no more) reserved in this generation; nothing was touched
};

/// The bookkeeping of a cache shard's DRAM tier: which slot of a byte region holds which block, who fills it
/// and who reads it. It owns no memory: slot i lies at offset i·block_bytes of the shard's region. A slot
/// goes free → reserved (a peer writes it) → cached (findable; pinned while a peer reads it) → evicted.
/// Reservations and pins have an owner and a deadline, so that a dead peer's end by themselves: call
/// expire(now) from time to time. A peer that goes on writing into a slot after its deadline may spoil the
/// slot's next block: readers find that out by the checksums (verify_block). Owned by one cache_shard actor;
/// not thread-safe; time is passed in.
class dram_arena {
 public:
  explicit dram_arena(const dram_arena_options& options);

  [[nodiscard]] std::uint32_t slot_count() const { return cache_.block_count(); }
  [[nodiscard]] std::uint64_t slot_offset(core::block_index slot) const {
    return slot * std::uint64_t{block_bytes_};
  }
  [[nodiscard]] std::uint64_t region_bytes() const { return slot_offset(slot_count()); }

  /// `count` slots for a transfer to fill, evicting as needed; all or nothing.
  [[nodiscard]] std::optional<std::vector<arena_slot>> reserve(std::uint32_t count, const arena_lease& lease);
  /// The slot is filled with the block that `header` describes: makes it findable under `root`. Parents
  /// first. The slot's generation is entered into the header. Ends the reservation in any case but `stale`.
  commit_outcome commit(arena_slot slot, block_header header, block_key root);
  /// The slot will not be filled. False when it is not (or no more) reserved in this generation.
  bool abandon(arena_slot slot);

  /// The longest cached prefix of `tokens`, at most max_tokens long, pinned.
  [[nodiscard]] pinned_prefix match(block_key root, std::span<const core::token_id> tokens,
                                    std::size_t max_tokens, const arena_lease& lease);
  /// As match, but counted neither as hit nor as miss: for blocks that are held until more of their prefix
  /// has come.
  [[nodiscard]] pinned_prefix pin(block_key root, std::span<const core::token_id> tokens,
                                  std::size_t max_tokens, const arena_lease& lease);
  /// Pins the blocks in these slots; 0 when one is not (or no more) cached in its generation.
  [[nodiscard]] pin_id pin(std::span<const arena_slot> slots, const arena_lease& lease);
  /// False when the pin is not (or no more) there.
  bool unpin(pin_id id);

  /// The block that is cached under `key`: its slot, and its header, which is the arena's. No proof by
  /// tokens.
  [[nodiscard]] std::optional<pinned_prefix::block> find(block_key key) const;

  /// Ends the reservations and pins whose deadline is not after `now`; returns how many ended.
  std::uint32_t expire(core::time_point now);
  /// Ends all that a peer holds: it is known to be gone. O(everything held).
  std::uint32_t end_owner(core::worker_id owner);
  /// The earliest deadline of what is held, for the owner's timer.
  [[nodiscard]] std::optional<core::time_point> next_deadline() const;

  [[nodiscard]] const prefix_cache& cache() const { return cache_; }
  [[nodiscard]] const dram_arena_counters& counters() const { return counters_; }
  [[nodiscard]] std::uint32_t reserved_count() const { return static_cast<std::uint32_t>(reserved_.size()); }
  [[nodiscard]] std::uint32_t pin_count() const { return static_cast<std::uint32_t>(pins_.size()); }
  /// Drops all blocks that are not pinned.
  std::uint32_t clear() { return cache_.clear(); }
  /// As prefix_cache: called on every change, must not call the arena.
  void set_listener(std::function<void(const cache_event&)> listener) { listener_ = std::move(listener); }
  [[nodiscard]] std::vector<block_key> snapshot() const { return cache_.snapshot(); }

  /// Invariant 4: empty when nothing is reserved or pinned and the cache's own audit is clean.
  [[nodiscard]] std::string audit() const;

 private:
  struct slot_state {
    std::uint32_t generation = 0;
    block_header header;  // of the block that is cached in the slot
  };
  struct held_slots {
    arena_lease lease;
    std::vector<core::block_index> slots;
  };

  [[nodiscard]] bool fits(const block_header& header, block_key root) const;
  commit_outcome adopt(core::block_index slot, block_header header, block_key root);
  [[nodiscard]] pin_id keep(held_slots held);
  void end_reservation(core::block_index slot);
  void end_pin(pin_id id);

  std::size_t block_bytes_;
  std::uint32_t max_pin_count_;
  prefix_cache::chain_function chain_key_;
  prefix_cache cache_;
  std::function<void(const cache_event&)> listener_;
  std::vector<slot_state> slots_;
  std::unordered_map<core::block_index, arena_lease> reserved_;
  std::unordered_map<pin_id, held_slots> pins_;
  std::uint64_t last_pin_ = 0;
  std::set<std::pair<core::time_point, core::block_index>> reservation_ends_;
  std::set<std::pair<core::time_point, pin_id>> pin_ends_;
  dram_arena_counters counters_;
};

}  // namespace yolk::kvcache
