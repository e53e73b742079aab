#include "actors/block_offer.hpp"

#include <caf/send.hpp>

#include "actors/conversions.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

block_offer make_offer(const worker_environment& environment, kvcache::block_key root,
                       std::span<const core::token_id> tokens, std::span<const core::block_index> blocks,
                       std::uint32_t first, std::uint32_t last) {
  const auto block_tokens = environment.layout.block_tokens;
  block_offer offer;
  offer.root = root;
  const auto keys = kvcache::keys_of(root, tokens.first(std::size_t{last} * block_tokens), block_tokens);
  for (std::uint32_t i = first; i < last; ++i) {
    kvcache::block_header header;
    header.key = keys[i];
    header.parent = i == 0 ? root : keys[i - 1];
    const auto own = tokens.subspan(std::size_t{i} * block_tokens, block_tokens);
    header.tokens.assign(own.begin(), own.end());
    header.key_rotation_base = environment.model.rope_base;
    header.first_position = i * block_tokens;
    header.writer = environment.incarnation;
    offer.headers.push_back(std::move(header));
    offer.blocks.push_back(blocks[i]);
  }
  return offer;
}

messages::offer_blocks offer_message(const block_offer& offer, std::uint64_t number,
                                     const worker_environment& environment) {
  return messages::offer_blocks::build([&](schema::OfferBlocks::Builder builder) {
    builder.setOffer(number);
    builder.setWorker(environment.id.value);
    builder.setWorkerIncarnation(environment.incarnation.value);
    write(builder.initRoot(), offer.root);
    builder.setBlocks(as_data(offer.blocks));
    auto headers = builder.initHeaders(static_cast<unsigned>(offer.headers.size()));
    for (unsigned i = 0; i < headers.size(); ++i) write(headers[i], offer.headers[i]);
    write(builder.initRegion(), environment.transfers->descriptor());
  });
}

void open_offers::open(block_offer offer, const messages::cache_shard_actor& shard, const caf::actor& owner) {
  offer.shard = shard;
  for (const auto block : offer.blocks) cache_.add_reference(block);
  const auto number = next_number_++;
  auto& kept = offers_.emplace(number, std::move(offer)).first->second;
  const bool posted = hashing_.post([this, owner, number, &kept] {
    for (std::size_t i = 0; i < kept.blocks.size(); ++i)
      if (kept.headers[i].layer_checksums.empty())
        kept.headers[i].layer_checksums =
            kvcache::layer_checksums(block_bytes(environment_, kept.blocks[i]), environment_.layout);
    caf::anon_send(owner, offer_ready{number});
  });
  if (!posted) close(number);
}

const block_offer* open_offers::find(std::uint64_t number) const {
  const auto found = offers_.find(number);
  return found == offers_.end() ? nullptr : &found->second;
}

void open_offers::close(std::uint64_t number) {
  const auto found = offers_.find(number);
  if (found == offers_.end()) return;
  for (const auto block : found->second.blocks) cache_.release(block);
  offers_.erase(found);
}

std::span<std::byte> block_bytes(const worker_environment& environment, core::block_index block) {
  const auto bytes = environment.layout.block_bytes();
  return environment.transfers->region().subspan(block * bytes, bytes);
}

}  // namespace yolk::actors
