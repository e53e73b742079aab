#pragma once

#include <cstdint>

namespace yolk::scheduling {

/// Targets of a class of requests. A request's TBT is the mean of its slowest 10 % of gaps.
struct slo_class {
  double ttft_seconds = 30.0;
  double tbt_seconds = 0.1;
  std::uint32_t priority = 0;  ///< larger is served first and refused last
};

}  // namespace yolk::scheduling
