#pragma once

#include <atomic>
#include <caf/typed_actor.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actors/http_gateway/heavy_lane.hpp"
#include "actors/http_gateway/http_gateway.hpp"
#include "messages/interfaces.hpp"

namespace yolk::actors {

/// The broker, as its sessions know it.
using http_output_sink = caf::typed_actor<caf::reacts_to<messages::http_output>>;

/// What all sessions of one gateway share. Made by the broker when it starts, read-only but for the counter;
/// thread-safe. Lives as long as the last session.
struct session_context {
  gateway_options options;
  gateway_environment environment;
  std::uint32_t context_tokens = 0;  ///< prompt and completion together
  std::int64_t started_seconds = 0;  ///< wall clock, for the model card
  std::string system_fingerprint;
  std::string url;                                                 ///< where clients reach this gateway
  std::vector<std::pair<std::string, std::string>> extra_headers;  ///< CORS, on every answer
  heavy_lane_actor heavy_lane;
  mutable std::atomic<std::uint64_t> numbers{1};

  /// Unique among all gateways of a cluster and, but for one case in a million, among the incarnations of
  /// each: leg ids and request ids come from here. 10 bits of node, 20 of incarnation, 34 of counter.
  [[nodiscard]] std::uint64_t next_number() const {
    constexpr unsigned counter_bits = 34;
    constexpr unsigned life_bits = 20;
    constexpr std::uint64_t mixer = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: Fibonacci hashing
    const std::uint64_t counter = numbers.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t life = (environment.incarnation.value * mixer) >> (64 - life_bits);
    return (std::uint64_t{options.node_number} << (counter_bits + life_bits)) | (life << counter_bits) |
           (counter & ((std::uint64_t{1} << counter_bits) - 1));
  }
};

}  // namespace yolk::actors
