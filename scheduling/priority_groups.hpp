#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

namespace yolk::scheduling {

/// Preble's local order (ICLR'25): requests stand in ten groups by the share of their prompt that is cached,
/// and each round takes up to 10 (g + 1) of group g, the best cached first. So cached prompts are cheap to
/// get through, and those without a hit are reached in every round. Not thread-safe.
class priority_groups {
 public:
  static constexpr std::uint32_t group_count = 10;
  static constexpr std::uint32_t quota_step = 10;

  /// hit_ratio in [0, 1].
  void push(std::uint64_t request, double hit_ratio);
  /// Within a group in order of arrival; nothing when all are empty.
  std::optional<std::uint64_t> pop();
  [[nodiscard]] std::size_t size() const;

 private:
  std::array<std::deque<std::uint64_t>, group_count> groups_;
  std::uint32_t group_ = group_count - 1;  ///< of this round's turn
  std::uint32_t taken_ = 0;                ///< of it, in this round
};

/// The group of a hit ratio: ceil(10 ratio) - 1, at least 0.
std::uint32_t priority_group(double hit_ratio);

}  // namespace yolk::scheduling
