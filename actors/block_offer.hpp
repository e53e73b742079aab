#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/worker_environment.hpp"
#include "core/ids.hpp"
#include "kvcache/block_header.hpp"
#include "messages/interfaces.hpp"

namespace yolk::actors {

/// Blocks that a worker offers to a cache shard; referenced until the shard has answered.
struct block_offer {
  kvcache::block_key root;
  std::uint32_t prefix_tokens = 0;        ///< before the first offered block
  std::vector<core::block_index> blocks;  ///< one reference each, taken by the worker
  std::vector<kvcache::block_header> headers;
};

/// Blocks [first, last) of the sequence `tokens`, with their headers; checksums are the worker's to fill in.
block_offer make_offer(const worker_environment& environment, kvcache::block_key root,
                       std::span<const core::token_id> tokens, std::span<const core::block_index> blocks,
                       std::uint32_t first, std::uint32_t last);

/// Hashes the blocks whose checksums are not known yet. Not for a handler: it reads all their bytes.
void fill_checksums(block_offer& offer, const worker_environment& environment);

messages::offer_blocks offer_message(const block_offer& offer, std::uint64_t number,
                                     const worker_environment& environment);

/// The bytes of a block in the worker's pool.
std::span<std::byte> block_bytes(const worker_environment& environment, core::block_index block);

}  // namespace yolk::actors
