#include "scheduling/credit_admission.hpp"

#include <algorithm>

namespace yolk::scheduling {

void credit_pool::update(double queue_delay_seconds, std::uint32_t clients) {
  const double target = options_.target_delay_seconds;
  if (queue_delay_seconds >= target) {
    const double over = (queue_delay_seconds - target) / target;
    credits_ *= std::max(1.0 - options_.decrease_slope * over, options_.least_factor);
  } else {
    credits_ += options_.additive_increase * clients;
  }
  const double most = static_cast<double>(options_.most_per_client) * std::max(clients, 1u);
  credits_ = std::clamp<double>(credits_, options_.least, std::max<double>(most, options_.least));
}

std::uint32_t credit_pool::window_for(const client& who, issue all) const {
  const double left = credits_ - all.issued;
  const double overcommitment = std::max(left / std::max(all.clients, 1u), 1.0);
  double window = who.window;
  if (left > 0) {
    window = std::min(who.pending + who.demand + overcommitment, window + left);
  } else if (left < 0) {
    window -= 1.0;
  }
  const double most = options_.most_per_client - 1.0;
  return static_cast<std::uint32_t>(
      std::clamp<double>(window, who.pending, std::max<double>(most, who.pending)));
}

}  // namespace yolk::scheduling
