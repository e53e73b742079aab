#include "scheduling/priority_groups.hpp"

#include <algorithm>
#include <cmath>

namespace yolk::scheduling {

std::uint32_t priority_group(double hit_ratio) {
  constexpr double last = priority_groups::group_count - 1;
  return static_cast<std::uint32_t>(
      std::clamp(std::ceil(hit_ratio * priority_groups::group_count) - 1.0, 0.0, last));
}

void priority_groups::push(std::uint64_t request, double hit_ratio) {
  groups_[priority_group(hit_ratio)].push_back(request);
}

std::optional<std::uint64_t> priority_groups::pop() {
  // Every group once, and the one that it began with again: its quota may have been used up.
  for (std::uint32_t tried = 0; tried <= group_count; ++tried) {
    auto& group = groups_[group_];
    if (!group.empty() && taken_ < quota_step * (group_ + 1)) {
      ++taken_;
      const std::uint64_t request = group.front();
      group.pop_front();
      return request;
    }
    group_ = group_ == 0 ? group_count - 1 : group_ - 1;
    taken_ = 0;
  }
  // All are empty: the next one begins a round.
  group_ = group_count - 1;
  taken_ = 0;
  return std::nullopt;
}

std::size_t priority_groups::size() const {
  std::size_t count = 0;
  for (const auto& group : groups_) count += group.size();
  return count;
}

}  // namespace yolk::scheduling
