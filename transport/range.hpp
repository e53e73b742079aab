#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/transfer_engine.hpp"

namespace yolk::transport {

/// Limit of the ranges in one transfer (a transfer of this many carries 24 MiB of ranges alone).
inline constexpr std::size_t max_ranges_per_transfer = std::size_t{1} << 20;

struct region_lengths {
  std::uint64_t local_bytes = 0;
  std::uint64_t remote_bytes = 0;  ///< a peer's word: any value
};

/// Total bytes of the ranges, or invalid_range with the first one that leaves a region. Offsets, lengths and
/// the remote region's length may be any 64-bit values.
[[nodiscard]] result<std::uint64_t> check_ranges(const std::vector<copy_range>& ranges,
                                                 const region_lengths& regions);

/// Joins neighbours of the list that are adjacent on both sides, and drops empty ranges. The order stays.
void coalesce(std::vector<copy_range>& ranges);

/// Walks ranges in slices of limited size, so that one large range does not keep the engine's thread from the
/// others.
class range_cursor {
 public:
  range_cursor() = default;
  explicit range_cursor(std::vector<copy_range> ranges) : ranges_(std::move(ranges)) {}
  /// The next slice, or nothing at the end.
  [[nodiscard]] std::optional<copy_range> next(std::uint64_t max_bytes);
  [[nodiscard]] bool at_end() const { return index_ == ranges_.size(); }

 private:
  std::vector<copy_range> ranges_;
  std::size_t index_ = 0;
  std::uint64_t consumed_ = 0;  // of ranges_[index_]
};

}  // namespace yolk::transport
