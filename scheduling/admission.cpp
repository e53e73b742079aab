#include "scheduling/admission.hpp"

#include <algorithm>
#include <cmath>

namespace yolk::scheduling {

namespace {

/// How long a request that arrives now would wait for its place: those before it leave the queue one per
/// ending. A client that comes back then finds the queue drained, also when all that were refused do so.
std::uint32_t predict_retry(const admission_load& load) {
  const double seconds = std::ceil((static_cast<double>(load.waiting) + 1.0) * load.seconds_per_request);
  // Not known (0), or not a number: the shortest answer. Compared as doubles, because a large one does not
  // fit.
  if (!(seconds > 1.0)) return 1;
  return static_cast<std::uint32_t>(std::min<double>(seconds, max_retry_after_seconds));
}

}  // namespace

admission_decision admit(const admission_limits& limits, const admission_load& load) {
  if (load.running < limits.max_running) return {.what = admission_decision::outcome::run};
  if (load.waiting < limits.max_waiting) return {.what = admission_decision::outcome::wait};
  return {.what = admission_decision::outcome::refuse, .retry_after_seconds = predict_retry(load)};
}

}  // namespace yolk::scheduling
