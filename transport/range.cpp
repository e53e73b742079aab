#include "transport/range.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace yolk::transport {
namespace {

// Written so that no sum is formed of numbers that a peer or a caller chose.
bool leaves(std::uint64_t offset, std::uint64_t bytes, std::uint64_t length) {
  return bytes > length || offset > length - bytes;
}

core::failure<errc> outside(const char* region, std::uint64_t offset, std::uint64_t bytes,
                            std::uint64_t length) {
  return {errc::invalid_range, "range of " + std::to_string(bytes) + " bytes at offset " +
                                   std::to_string(offset) + " leaves the " + region + " region of " +
                                   std::to_string(length) + " bytes"};
}

}  // namespace

result<std::uint64_t> check_ranges(const std::vector<copy_range>& ranges, const region_lengths& regions) {
  if (ranges.size() > max_ranges_per_transfer) {
    return core::failure<errc>{errc::invalid_range, "transfer of " + std::to_string(ranges.size()) +
                                                        " ranges: at most " +
                                                        std::to_string(max_ranges_per_transfer)};
  }
  std::uint64_t total = 0;
  for (const copy_range& range : ranges) {
    if (leaves(range.local_offset, range.bytes, regions.local_bytes)) {
      return outside("local", range.local_offset, range.bytes, regions.local_bytes);
    }
    if (leaves(range.remote_offset, range.bytes, regions.remote_bytes)) {
      return outside("remote", range.remote_offset, range.bytes, regions.remote_bytes);
    }
    // Each range lies inside the local region, but a million of them may repeat it.
    if (range.bytes > std::numeric_limits<std::uint64_t>::max() - total) {
      return core::failure<errc>{errc::invalid_range, "the ranges' total exceeds 64 bits"};
    }
    total += range.bytes;
  }
  return total;
}

void coalesce(std::vector<copy_range>& ranges) {
  std::size_t kept = 0;
  for (const copy_range range : ranges) {
    if (range.bytes == 0) continue;
    if (kept > 0) {
      copy_range& last = ranges[kept - 1];
      if (last.local_offset + last.bytes == range.local_offset &&
          last.remote_offset + last.bytes == range.remote_offset) {
        last.bytes += range.bytes;
        continue;
      }
    }
    ranges[kept++] = range;
  }
  ranges.resize(kept);
}

std::optional<copy_range> range_cursor::next(std::uint64_t max_bytes) {
  if (at_end()) return std::nullopt;
  const copy_range& range = ranges_[index_];
  const copy_range slice{range.local_offset + consumed_, range.remote_offset + consumed_,
                         std::min(max_bytes, range.bytes - consumed_)};
  consumed_ += slice.bytes;
  if (consumed_ == range.bytes) {
    ++index_;
    consumed_ = 0;
  }
  return slice;
}

}  // namespace yolk::transport
