#include "scheduling/deadline_guard.hpp"

#include <algorithm>
#include <numeric>

namespace yolk::scheduling {

deadline_order guard_deadlines(std::span<const waiting_prefill> waiting, double now_seconds) {
  std::vector<std::uint32_t> order(waiting.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t index) { return waiting[index].deadline_seconds; });
  deadline_order decided;
  double sum = 0.0;
  for (const std::uint32_t index : order) {
    const double with = sum + waiting[index].service_seconds;
    if (with > waiting[index].deadline_seconds - now_seconds + deadline_slack_seconds) {
      decided.rejected.push_back(index);
      continue;
    }
    sum = with;
    decided.run.push_back(index);
  }
  return decided;
}

}  // namespace yolk::scheduling
