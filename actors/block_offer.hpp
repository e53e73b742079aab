#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "actors/worker_environment.hpp"
#include "core/background_thread.hpp"
#include "core/ids.hpp"
#include "kvcache/block_header.hpp"
#include "kvcache/prefix_cache.hpp"
#include "messages/interfaces.hpp"

namespace yolk::actors {

/// Blocks that a worker offers to a cache shard; referenced until the shard has answered.
struct block_offer {
  messages::cache_shard_actor shard;
  kvcache::block_key root;
  std::vector<core::block_index> blocks;
  std::vector<kvcache::block_header> headers;
};

/// Blocks [first, last) of the sequence `tokens`, with their headers; checksums are still to be filled in.
block_offer make_offer(const worker_environment& environment, kvcache::block_key root,
                       std::span<const core::token_id> tokens, std::span<const core::block_index> blocks,
                       std::uint32_t first, std::uint32_t last);

messages::offer_blocks offer_message(const block_offer& offer, std::uint64_t number,
                                     const worker_environment& environment);

/// To the worker that opened it: the offer's blocks are hashed, its message can be built.
struct offer_ready {
  std::uint64_t number = 0;
};

/// A worker's offers that no shard has answered yet, each with a reference to its blocks. Owned by the
/// worker's actor; the cache and the hashing thread outlive it.
class open_offers {
 public:
  open_offers(const worker_environment& environment, kvcache::prefix_cache& cache,
              core::background_thread& hashing)
      : environment_(environment), cache_(cache), hashing_(hashing) {}

  /// Hashes the blocks whose checksums are not known, aside, then tells `owner`. Where the thread takes no
  /// more work the offer is dropped: what is not cached is computed again.
  void open(block_offer offer, const messages::cache_shard_actor& shard, const caf::actor& owner);
  /// Null for a number that is closed already.
  [[nodiscard]] const block_offer* find(std::uint64_t number) const;
  /// Gives the references back.
  void close(std::uint64_t number);
  [[nodiscard]] bool empty() const { return offers_.empty(); }

 private:
  const worker_environment& environment_;
  kvcache::prefix_cache& cache_;
  core::background_thread& hashing_;
  std::map<std::uint64_t, block_offer> offers_;
  std::uint64_t next_number_ = 1;
};

/// The bytes of a block in the worker's pool.
std::span<std::byte> block_bytes(const worker_environment& environment, core::block_index block);

}  // namespace yolk::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(yolk::actors::offer_ready)
