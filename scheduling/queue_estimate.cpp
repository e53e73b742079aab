#include "scheduling/queue_estimate.hpp"

#include <algorithm>

namespace yolk::scheduling {

void queue_estimate::placed(std::uint64_t request, double service_seconds, double now_seconds) {
  if (entries_.empty()) {
    first_since_ = now_seconds;
    total_seconds_ = 0.0;  // what rounding left
  }
  entries_.push_back({request, service_seconds});
  total_seconds_ += service_seconds;
}

void queue_estimate::left(std::uint64_t request, double now_seconds) {
  const auto found = std::ranges::find(entries_, request, &entry::request);
  if (found == entries_.end()) return;
  if (found == entries_.begin()) first_since_ = now_seconds;
  total_seconds_ -= found->service_seconds;
  entries_.erase(found);
}

double queue_estimate::seconds(double now_seconds) const {
  if (entries_.empty()) return 0.0;
  const double had = std::clamp(now_seconds - first_since_, 0.0, entries_.front().service_seconds);
  return std::max(0.0, total_seconds_ - had);
}

}  // namespace yolk::scheduling
