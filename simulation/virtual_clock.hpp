#pragma once

#include <atomic>

#include "core/clock.hpp"

namespace yolk::simulation {

/// Time that passes only when its owner says so.
class virtual_clock final : public core::clock {
 public:
  explicit virtual_clock(core::time_point start) : now_(start.time_since_epoch().count()) {}

  [[nodiscard]] core::time_point now() const override {
    return core::time_point(core::duration(now_.load(std::memory_order_relaxed)));
  }
  void set(core::time_point now) { now_.store(now.time_since_epoch().count(), std::memory_order_relaxed); }

 private:
  std::atomic<core::duration::rep> now_;
};

}  // namespace yolk::simulation
