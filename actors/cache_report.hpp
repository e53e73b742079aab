#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "kvcache/prefix_cache.hpp"
#include "messages/interfaces.hpp"

namespace yolk::actors {

/// Numbers what changes in a holder's cache, for the conductor's index. Owned by the holder's state.
class cache_report {
 public:
  cache_report(core::worker_id holder, core::incarnation incarnation)
      : holder_(holder), incarnation_(incarnation) {}

  void note(const kvcache::cache_event& event) { unsent_.push_back(event); }
  /// What changed since the last call, as the next numbered message; nothing when nothing did.
  [[nodiscard]] std::optional<messages::cache_events> take();
  /// The answer to a snapshot request. Changes not taken yet are in `keys` already; applying them again is
  /// harmless.
  [[nodiscard]] messages::cache_snapshot snapshot(std::span<const kvcache::block_key> keys) const;

 private:
  core::worker_id holder_;
  core::incarnation incarnation_;
  std::vector<kvcache::cache_event> unsent_;
  std::uint64_t sequence_ = 0;
};

}  // namespace yolk::actors
