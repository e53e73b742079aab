#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "kvcache/block_key.hpp"
#include "kvcache/prefix_cache.hpp"

namespace yolk::kvcache {

struct cache_index_limits {
  /// What a holder says beyond this is not remembered: requests may then miss there, nothing else.
  std::size_t keys_per_holder = std::size_t{1} << 24;
  /// Of holders that were removed, so many are remembered; beyond, the one removed first is forgotten.
  std::size_t removed_holders = 1024;
};

/// Who holds which blocks: the conductor's view of all caches, built from their numbered events. Soft state:
/// a gap in a holder's numbers, or a new incarnation, makes its entries void until it sends a snapshot. A
/// holder that has nothing to tell may send an empty list under its next number from time to time: that shows
/// the loss of its last event. One table for all holders (holder_table), 64 bytes a key at most. Not
/// thread-safe.
class cache_index {
 public:
  enum class applied : std::uint8_t { ok, needs_snapshot, stale };

  /// Event number `sequence` of a holder (one number per call, whatever the number of changes in it); they
  /// count from 1 within an incarnation. needs_snapshot: ask the holder, whose entries are void until then.
  /// stale: of an incarnation that was replaced, or applied before; ignored.
  applied apply(core::worker_id holder, core::incarnation incarnation, std::uint64_t sequence,
                std::span<const cache_event> events);
  /// Everything that the holder has, as of its event number `sequence`. Ignored when it is older than what is
  /// known.
  void replace(core::worker_id holder, core::incarnation incarnation, std::uint64_t sequence,
               std::span<const block_key> keys);
  /// The holder is gone. Its late events do not bring its entries back: only a snapshot or a new incarnation
  /// does.
  void remove(core::worker_id holder);

  struct match {
    core::worker_id holder;
    std::uint32_t leading = 0;  ///< > 0
  };
  /// Of every holder that has the first of the keys, how many of the leading ones it has; by holder. One
  /// walk over the keys, however many the holders. Valid until the next call.
  [[nodiscard]] std::span<const match> matches(std::span<const block_key> keys) const;
  /// How many of the leading `keys` the holder has.
  [[nodiscard]] std::uint32_t leading(core::worker_id holder, std::span<const block_key> keys) const;
  [[nodiscard]] std::size_t block_count() const;   ///< (holder, key) pairs
  [[nodiscard]] std::size_t memory_bytes() const;  ///< of the table

  explicit cache_index(cache_index_limits limits = {});
  ~cache_index();
  cache_index(const cache_index&) = delete;
  cache_index& operator=(const cache_index&) = delete;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace yolk::kvcache
