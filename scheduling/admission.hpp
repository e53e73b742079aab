#pragma once

#include <cstdint>

namespace yolk::scheduling {

struct admission_limits {
  std::uint32_t max_running = 64;   ///< requests placed and not ended
  std::uint32_t max_waiting = 256;  ///< requests admitted, waiting for a place
};

struct admission_load {
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  double seconds_per_request = 0.0;  ///< recent mean time between endings; 0 = not known
};

struct admission_decision {
  enum class outcome : std::uint8_t { run, wait, refuse } what = outcome::run;
  std::uint32_t retry_after_seconds = 0;  ///< when refused: a prediction, at least 1
};

/// However long the queue, nobody is told to come back later than this.
inline constexpr std::uint32_t max_retry_after_seconds = 600;

/// Bounded queue: runs while there is room, waits while the queue has room, else refuses (429).
admission_decision admit(const admission_limits& limits, const admission_load& load);

}  // namespace yolk::scheduling
