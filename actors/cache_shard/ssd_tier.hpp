#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/cache_shard/cache_shard.hpp"
#include "kvcache/dram_arena.hpp"
#include "kvcache/ssd_log.hpp"

namespace yolk::actors {

/// The ways of blocks between a shard's arena and its SSD log: saves are asynchronous and may be dropped;
/// loads bring what continues a cached prefix into reserved slots. Owned by shard_state, used on its actor's
/// thread.
class ssd_tier {
 public:
  /// The environment's log becomes the tier's. `post` runs a function on the actor's thread.
  ssd_tier(const shard_options& options, shard_environment& environment, kvcache::dram_arena& arena,
           kvcache::ssd_log::poster post);
  ~ssd_tier();  ///< finishes saves, for a while; waits for what is being read

  /// These blocks were committed to the arena, parents first.
  void stored(std::span<const kvcache::block_key> keys);

  struct wanted {
    kvcache::block_key root;
    std::span<const core::token_id> tokens;
    std::uint32_t max_tokens = 0;
    std::uint32_t skip_tokens = 0;  ///< the asker has these: a prefix that is no longer is not worth a load
  };
  /// `again`: it was another's load that ended, which may have brought less than is wanted here.
  using load_ended = std::function<void(bool again)>;
  /// Brings the blocks that continue what the arena has of a prompt into the arena; `on_end` comes when they
  /// are there, or at the options' deadline. False when the log has nothing to add, or there is no room.
  bool load(const wanted& prompt, load_ended on_end);

  void tick();
  [[nodiscard]] const kvcache::ssd_log& log() const { return *log_; }
  /// What the log begins and ceases to store; must not call the tier.
  void set_listener(std::function<void(const kvcache::cache_event&)> listener);
  [[nodiscard]] bool idle() const { return loads_.empty() && log_->idle(); }
  [[nodiscard]] std::uint32_t load_count() const { return static_cast<std::uint32_t>(loads_.size()); }

 private:
  struct open_load {
    kvcache::block_key root;
    kvcache::pin_id beginning;  ///< what the blocks continue
    std::vector<kvcache::block_key> keys;
    std::vector<kvcache::arena_slot> slots;
    std::vector<std::optional<kvcache::block_header>> headers;
    std::size_t reading = 1;  ///< reads, and one until all have begun
    core::time_point begin{};
    std::vector<std::pair<load_ended, bool>> ends;  ///< with `again`; empty once answered
  };

  void save(std::span<const kvcache::block_key> keys);
  void save_next_evictions();
  void save_everything();
  void read_ended(std::uint64_t number, std::size_t index, std::optional<kvcache::block_header> header);
  void finish(std::uint64_t number);
  void report();
  [[nodiscard]] std::span<std::byte> bytes_of(core::block_index slot) const;

  shard_options options_;
  shard_environment& environment_;
  kvcache::dram_arena& arena_;
  std::map<std::uint64_t, open_load> loads_;
  std::unordered_map<kvcache::block_key, std::uint64_t> loading_;  ///< the first key of each load
  std::uint64_t next_load_ = 1;
  kvcache::ssd_log_counters reported_;
  std::unique_ptr<kvcache::ssd_log> log_;
};

}  // namespace yolk::actors
