#pragma once

#include <caf/actor_system.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/clock.hpp"
#include "simulation/event_queue.hpp"
#include "simulation/virtual_clock.hpp"

namespace yolk::simulation {

/// An actor system under virtual time, on the caller's thread: all messages are handled, in the order in
/// which they were sent; then time jumps to the next delayed message, request's timeout or planned event.
/// Deterministic. All actors must have ended before it is destroyed: end() sees to it.
class virtual_system {
 public:
  virtual_system();
  ~virtual_system();
  virtual_system(const virtual_system&) = delete;
  virtual_system& operator=(const virtual_system&) = delete;

  [[nodiscard]] caf::actor_system& actors();
  [[nodiscard]] event_queue& events() { return events_; }
  [[nodiscard]] const std::shared_ptr<virtual_clock>& clock() const { return clock_; }
  /// Where every simulation begins.
  [[nodiscard]] static core::time_point start() { return core::time_point(std::chrono::hours(24)); }

  /// Until `done` (asked before each jump of time) or `end`, or until nothing is left to happen. False:
  /// `done` was never said.
  bool run_until(const std::function<bool()>& done, core::time_point end = core::time_point::max());
  /// Handles what was sent, without any passing of time.
  void run_messages();
  [[nodiscard]] std::uint64_t message_count() const { return message_count_; }

 private:
  struct caf_side;

  std::shared_ptr<virtual_clock> clock_;
  event_queue events_;
  std::unique_ptr<caf_side> caf_;
  std::uint64_t message_count_ = 0;
};

}  // namespace yolk::simulation
