#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/transfer_engine.hpp"

namespace yolk::transport {

/// What UCX and the engine need of a region, before it is sealed or after its seal was checked.
struct region_keys {
  std::uint64_t nonce =
      0;  ///< random per engine; the region's header must still hold it when a transfer ends
  std::span<const std::byte> remote_key;
  std::span<const std::byte> worker_address;
};

/// Limit of UCX's part in each of a descriptor's two byte strings (measured: 11-25 and 108-215 bytes; a
/// machine with many network cards has more).
inline constexpr std::size_t max_key_bytes = 64 * 1024;

/// UCX trusts the keys and addresses that it is given to unpack: a truncated one makes it read beyond the
/// end, a flipped bit makes it attach somewhere else. So both byte strings of a descriptor carry magic,
/// version, length and a checksum, and the remote key's checksum covers the descriptor's other fields and the
/// worker address too. This tells damage and mix-ups; it is no protection from an attacker, who could seal
/// what he likes.
[[nodiscard]] region_descriptor seal_descriptor(core::incarnation owner, std::uint64_t base_address,
                                                std::uint64_t length_bytes, const region_keys& keys);

/// The parts of a sound descriptor (they point into it), or peer_unreachable saying what is wrong with it.
[[nodiscard]] result<region_keys> open_descriptor(const region_descriptor& descriptor);

}  // namespace yolk::transport
