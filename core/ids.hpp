#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace yolk::core {

/// An integer that cannot be mixed up with another of the same width.
template <class Tag, class Rep>
struct strong_id {
  Rep value = 0;
  friend auto operator<=>(const strong_id&, const strong_id&) = default;
};

/// Chosen by the gateway that took the request; unique within a cluster for the life of the gateway's
/// incarnation.
using request_id = strong_id<struct request_tag, std::uint64_t>;
/// A worker or cache shard; unique within a cluster.
using worker_id = strong_id<struct worker_tag, std::uint32_t>;
/// Numbers of one node's workers: node · this, and on. A process alone is node 0.
inline constexpr std::uint32_t workers_per_node = 256;
constexpr std::uint32_t node_of(worker_id worker) {
  return worker.value / workers_per_node;
}
/// New at every start of an actor that holds state others refer to. Larger is newer.
using incarnation = strong_id<struct incarnation_tag, std::uint64_t>;

/// A token's index in the vocabulary.
using token_id = std::uint32_t;
/// A slot of a block pool or arena.
using block_index = std::uint32_t;
inline constexpr block_index no_block = 0xffffffffu;

}  // namespace yolk::core

template <class Tag, class Rep>
struct std::hash<yolk::core::strong_id<Tag, Rep>> {
  std::size_t operator()(const yolk::core::strong_id<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
