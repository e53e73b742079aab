#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "core/sampling_params.hpp"
#include "kvcache/block_header.hpp"
#include "kvcache/block_key.hpp"
#include "messages/interfaces.hpp"
#include "transport/transfer_engine.hpp"

// Between the actors' vocabulary (messages/) and the rooms' own types.
namespace yolk::actors {

/// Numbers as Data, little-endian, and back; a trailing partial number is dropped.
template <class Number>
capnp::Data::Reader as_data(std::span<const Number> numbers) {
  return {reinterpret_cast<const capnp::byte*>(numbers.data()), numbers.size_bytes()};
}
template <class Number>
capnp::Data::Reader as_data(const std::vector<Number>& numbers) {
  return as_data(std::span<const Number>(numbers));
}
template <class Number>
std::vector<Number> numbers_of(capnp::Data::Reader data) {
  std::vector<Number> numbers(data.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), data.begin(), numbers.size() * sizeof(Number));
  return numbers;
}

/// "prefill_worker": what people read in logs, metrics and pictures.
const char* kind_name(messages::schema::ActorKind kind);

struct leg_header {
  std::uint64_t leg = 0;
  std::uint64_t request = 0;
  std::uint32_t attempt = 0;
};
leg_header header_of(messages::schema::RequestHeader::Reader reader);
void write(messages::schema::RequestHeader::Builder builder, const leg_header& header,
           core::incarnation sender);

kvcache::block_key key_of(messages::schema::BlockKey::Reader reader);
void write(messages::schema::BlockKey::Builder builder, const kvcache::block_key& key);

transport::region_descriptor region_of(messages::schema::Region::Reader reader);
void write(messages::schema::Region::Builder builder, const transport::region_descriptor& region);

kvcache::block_header block_header_of(messages::schema::BlockHeader::Reader reader);
void write(messages::schema::BlockHeader::Builder builder, const kvcache::block_header& header);

/// Everything but the seeds, which are per choice: choice_seeds.
core::sampling_params sampling_of(messages::schema::Sampling::Reader reader);
void write(messages::schema::Sampling::Builder builder, const core::sampling_params& params,
           std::span<const std::uint64_t> seeds);

core::sampled_token sampled_of(messages::schema::TokenBatch::Token::Reader reader);
void write(messages::schema::TokenBatch::Token::Builder builder, const core::sampled_token& token);

messages::leg_failed make_leg_failed(const leg_header& header, core::incarnation sender,
                                     messages::schema::LegFailed::Reason reason, std::string_view text,
                                     std::uint32_t retry_after_seconds = 0);
messages::cancel_leg make_cancel_leg(const leg_header& header, core::incarnation sender);
messages::leg_ended make_leg_ended(const leg_header& header, core::incarnation sender, bool cancel);

}  // namespace yolk::actors
