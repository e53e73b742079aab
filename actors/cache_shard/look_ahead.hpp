#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "actors/cache_shard/cache_shard.hpp"
#include "actors/cache_shard/ssd_tier.hpp"
#include "kvcache/dram_arena.hpp"

namespace yolk::actors {

/// What requests in the queues will need of a shard: their prefixes are pinned in DRAM, and what SSD has of
/// them is loaded, one prefix at a time and only while no request waits for SSD. A want ends when its leg's
/// turn has come, when it is withdrawn, or with its lease; all together pin at most a half of the arena.
/// Owned by shard_state, used on its actor's thread.
class look_ahead {
 public:
  /// `ssd` may be null, and must outlive this.
  look_ahead(const shard_options& options, const shard_environment& environment, kvcache::dram_arena& arena,
             ssd_tier* ssd);

  struct prefix {
    kvcache::block_key root;
    std::vector<core::token_id> tokens;  ///< what may be cached of the prompt
  };
  /// A leg that waits. Again for the same leg: its lease begins anew.
  void want(std::uint64_t leg, prefix prompt);
  void forget(std::uint64_t leg);
  /// Ends what is over, goes on with what is not loaded yet.
  void tick();
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(wants_.size()); }
  [[nodiscard]] std::uint32_t pinned_blocks() const { return pinned_; }

 private:
  struct wanted {
    prefix prompt;
    core::time_point end{};
    kvcache::pin_id pin;
    std::uint32_t blocks = 0;  ///< pinned
    bool asked = false;        ///< SSD was, for the rest
  };
  /// Pins what DRAM has by now.
  void protect(wanted& what);
  void release(wanted& what);
  void load_next();
  [[nodiscard]] std::uint32_t room() const;

  const shard_options& options_;
  const shard_environment& environment_;
  kvcache::dram_arena& arena_;
  ssd_tier* ssd_;
  std::map<std::uint64_t, wanted> wants_;  ///< by leg: the older first
  std::uint32_t pinned_ = 0;
  bool loading_ = false;
};

}  // namespace yolk::actors
