#include "transport/range.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "core/random.hpp"

namespace yolk::transport {
namespace {

constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();

bool is_invalid(const std::vector<copy_range>& ranges, const region_lengths& regions) {
  const auto checked = check_ranges(ranges, regions);
  return !checked && checked.error().code == errc::invalid_range;
}

TEST_CASE("a range that leaves either region is refused, whatever its numbers add up to") {
  const region_lengths regions{1000, 2000};
  CHECK(check_ranges({{0, 0, 1000}}, regions).value() == 1000);
  CHECK(check_ranges({{1000, 2000, 0}}, regions).value() == 0);
  CHECK(check_ranges({{0, 1999, 1}, {999, 0, 1}}, regions).value() == 2);
  CHECK(is_invalid({{0, 0, 1001}}, regions));
  CHECK(is_invalid({{1, 0, 1000}}, regions));
  CHECK(is_invalid({{0, 1001, 1000}}, regions));
  CHECK(is_invalid({{1001, 0, 0}}, regions));
  CHECK(is_invalid({{0, 2001, 0}}, regions));
  // Sums that wrap around to something small.
  CHECK(is_invalid({{huge, 0, 1}}, regions));
  CHECK(is_invalid({{0, huge, 2}}, regions));
  CHECK(is_invalid({{0, 0, huge}}, regions));
  CHECK(is_invalid({{2, 2, huge - 1}}, regions));
  CHECK(is_invalid({{huge, huge, huge}}, regions));
  CHECK(is_invalid({{1, 1, huge}}, {huge, huge}));
}

TEST_CASE("a total beyond 64 bits is refused") {
  CHECK(is_invalid({{0, 0, huge / 2}, {0, 0, huge / 2}, {0, 0, 2}}, {huge, huge}));
}

TEST_CASE("more ranges than a transfer may have are refused") {
  std::vector<copy_range> ranges(max_ranges_per_transfer, copy_range{0, 0, 1});
  CHECK(check_ranges(ranges, {1, 1}).value() == max_ranges_per_transfer);
  ranges.push_back({0, 0, 1});
  CHECK(is_invalid(ranges, {1, 1}));
}

TEST_CASE("neighbours that are adjacent on both sides become one range") {
  std::vector<copy_range> ranges{{0, 100, 10}, {10, 110, 5}, {15, 200, 5},
                                 {20, 205, 0}, {20, 205, 5}, {30, 210, 5}};
  coalesce(ranges);
  REQUIRE(ranges.size() == 3);
  CHECK((ranges[0].local_offset == 0 && ranges[0].remote_offset == 100 && ranges[0].bytes == 15));
  CHECK((ranges[1].local_offset == 15 && ranges[1].remote_offset == 200 && ranges[1].bytes == 10));
  CHECK((ranges[2].local_offset == 30 && ranges[2].remote_offset == 210 && ranges[2].bytes == 5));
  std::vector<copy_range> empty{{1, 2, 0}, {3, 4, 0}};
  coalesce(empty);
  CHECK(empty.empty());
}

TEST_CASE("slices cover each byte of the ranges once and in order") {
  constexpr std::uint64_t seed = 20240917;
  CAPTURE(seed);
  core::random_source random(seed);
  for (int round = 0; round < 50; ++round) {
    std::vector<copy_range> ranges;
    for (std::uint64_t i = random.below(20); i > 0; --i) {
      ranges.push_back({random.below(1000), random.below(1000), 1 + random.below(500)});
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> expected, seen;
    for (const auto& range : ranges) {
      for (std::uint64_t i = 0; i < range.bytes; ++i) {
        expected.emplace_back(range.local_offset + i, range.remote_offset + i);
      }
    }
    range_cursor cursor(ranges);
    while (const auto slice = cursor.next(1 + random.below(100))) {
      REQUIRE(slice->bytes > 0);
      for (std::uint64_t i = 0; i < slice->bytes; ++i) {
        seen.emplace_back(slice->local_offset + i, slice->remote_offset + i);
      }
    }
    CHECK(cursor.at_end());
    CHECK(seen == expected);
  }
}

}  // namespace
}  // namespace yolk::transport
