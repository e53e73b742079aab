#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/clock.hpp"

namespace yolk::simulation {

/// What will happen, in order of time; what happens at the same time, in the order in which it was planned.
/// So that one run is like another. Not thread-safe: a simulation has one thread.
class event_queue {
 public:
  using action = std::function<void()>;

  void at(core::time_point when, action what);
  [[nodiscard]] std::optional<core::time_point> next() const;
  /// Does the first event, which must be there. It may plan others.
  void run_first();
  [[nodiscard]] std::uint64_t run_count() const { return run_count_; }

 private:
  struct event {
    core::time_point when;
    std::uint64_t number = 0;
    action what;
  };
  static bool later(const event& a, const event& b) {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  std::vector<event> heap_;
  std::uint64_t planned_ = 0;
  std::uint64_t run_count_ = 0;
};

}  // namespace yolk::simulation
