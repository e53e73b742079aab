#pragma once

#include <chrono>

namespace yolk::core {

using time_point = std::chrono::steady_clock::time_point;
using duration = std::chrono::steady_clock::duration;

/// Where actors read the time; arrives by constructor, so that tests and the simulator turn it by hand.
/// Thread-safe.
class clock {
 public:
  virtual ~clock() = default;
  [[nodiscard]] virtual time_point now() const = 0;
};

class steady_clock final : public clock {
 public:
  [[nodiscard]] time_point now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace yolk::core
