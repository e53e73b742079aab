#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace yolk::scheduling {

struct waiting_prefill {
  double deadline_seconds = 0.0;  ///< arrival + TTFT target, on the clock of `now`
  double service_seconds = 0.0;   ///< predicted prefill
};

struct deadline_order {
  std::vector<std::uint32_t> run;       ///< into the waiting list, first to run first
  std::vector<std::uint32_t> rejected;  ///< cannot meet their deadline behind those that run before them
};

/// A prediction may miss a deadline by so much before its request is rejected.
inline constexpr double deadline_slack_seconds = 0.05;

/// SCORPIO's TTFT guard (arXiv 2505.23022): least deadline first; whose deadline the sum of the prefills up
/// to its own exceeds is rejected, and does not delay the others. Ties in order of the list.
deadline_order guard_deadlines(std::span<const waiting_prefill> waiting, double now_seconds);

}  // namespace yolk::scheduling
