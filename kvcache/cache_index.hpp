#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "kvcache/block_key.hpp"
#include "kvcache/prefix_cache.hpp"

namespace yolk::kvcache {

/// Who holds which blocks: the conductor's view of all caches, built from their numbered events. Soft state: a gap in
/// a holder's numbers, or a new incarnation, makes its entries void until it sends a snapshot. Not thread-safe.
class cache_index {
 public:
  enum class applied : std::uint8_t { ok, needs_snapshot, stale };

  /// Event number `sequence` of a holder; they count from 1 within an incarnation. needs_snapshot: ask the holder.
  applied apply(core::worker_id holder, core::incarnation incarnation, std::uint64_t sequence,
                std::span<const cache_event> events);
  /// Everything that the holder has, as of its event number `sequence`.
  void replace(core::worker_id holder, core::incarnation incarnation, std::uint64_t sequence,
               std::span<const block_key> keys);
  /// The holder is gone.
  void remove(core::worker_id holder);

  /// How many of the leading `keys` the holder has.
  [[nodiscard]] std::uint32_t leading(core::worker_id holder, std::span<const block_key> keys) const;
  [[nodiscard]] std::size_t block_count() const;  ///< (holder, key) pairs

  cache_index();
  ~cache_index();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace yolk::kvcache
