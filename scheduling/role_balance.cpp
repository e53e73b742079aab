#include "scheduling/role_balance.hpp"

#include <algorithm>
#include <cmath>

namespace yolk::scheduling {

namespace {

double busier_load(double prefill_workers, double decode_workers, const role_demand& demand) {
  return std::max(demand.prefill / prefill_workers, demand.decode / decode_workers);
}

}  // namespace

std::uint32_t balanced_prefill_count(std::uint32_t total, const role_demand& demand) {
  std::uint32_t best = 1;
  for (std::uint32_t prefill = 2; prefill < total; ++prefill)
    if (busier_load(prefill, total - prefill, demand) < busier_load(best, total - best, demand))
      best = prefill;
  return best;
}

role_change role_balancer::decide(double now_seconds, const role_counts& counts, const role_demand& demand) {
  if (!began_) {
    began_ = true;
    smoothed_ = demand;
    last_seconds_ = now_seconds;
    changed_at_ = now_seconds;
  }
  const double weight = 1.0 - std::exp(-(now_seconds - last_seconds_) / options_.smoothing_seconds);
  smoothed_.prefill += weight * (demand.prefill - smoothed_.prefill);
  smoothed_.decode += weight * (demand.decode - smoothed_.decode);
  last_seconds_ = now_seconds;

  const std::uint32_t total = counts.prefill + counts.decode;
  const std::uint32_t best = balanced_prefill_count(total, smoothed_);
  role_change wanted = role_change::none;
  if (best > counts.prefill && counts.decode > 1) wanted = role_change::to_prefill;
  if (best < counts.prefill && counts.prefill > 1) wanted = role_change::to_decode;
  if (wanted != role_change::none) {
    const double step = wanted == role_change::to_prefill ? 1.0 : -1.0;
    const double now = busier_load(counts.prefill, counts.decode, smoothed_);
    const double then = busier_load(counts.prefill + step, counts.decode - step, smoothed_);
    if (then > (1.0 - options_.least_gain) * now) wanted = role_change::none;
  }
  if (wanted != wanted_) {
    wanted_ = wanted;
    wanted_since_ = now_seconds;
  }
  if (wanted == role_change::none || now_seconds - wanted_since_ < options_.patience_seconds ||
      now_seconds - changed_at_ < options_.pause_seconds)
    return role_change::none;
  changed_at_ = now_seconds;
  wanted_ = role_change::none;
  return wanted;
}

}  // namespace yolk::scheduling
