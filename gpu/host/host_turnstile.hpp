#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "core/clock.hpp"
#include "gpu/device.hpp"

namespace yolk::gpu::host {

/// Who of several steps has the cores. Decode goes before prefill, in bounded shares:
///  - a waiting decode step takes over from a running prefill step at the prefill's next pause, but not
///  before the
///    prefill has had prefill_share times the duration of the decode step before;
///  - when a decode step ends and a prefill step waits (or was set aside), the prefill goes first;
///  - within a class, first come, first served; a prefill step that was set aside goes before one not yet
///  begun.
/// So between two decode steps of one stream lie at most prefill_share decode durations plus one piece of a
/// kernel, and a prefill step advances after every decode step. Plain state: no thread, no clock read inside.
class turn_order {
 public:
  using ticket = std::uint64_t;

  explicit turn_order(double prefill_share) : prefill_share_(prefill_share) {}

  /// Joins the queue, and takes the turn if it is free.
  ticket request(step_class kind, core::time_point now);
  /// The step has ended; the holder alone says so.
  void release(ticket who, core::time_point now);
  /// Whether the holder, a prefill step, has to let a decode step through now.
  [[nodiscard]] bool should_lend(ticket who, core::time_point now) const;
  /// Sets the holder aside in favour of the decode step that waits longest.
  void lend(ticket who, core::time_point now);

  [[nodiscard]] std::optional<ticket> holder() const;
  [[nodiscard]] bool decode_waits() const { return !decode_queue_.empty(); }

 private:
  struct turn {
    ticket who = 0;
    step_class kind = step_class::prefill;
    core::time_point since;
  };

  void grant(core::time_point now, bool prefill_first);
  void hold(std::deque<ticket>& queue, step_class kind, core::time_point now);

  double prefill_share_;
  ticket last_ticket_ = 0;
  std::optional<turn> holder_;
  std::deque<ticket> decode_queue_;
  std::deque<ticket> prefill_queue_;  ///< a step that was set aside is at the front
  core::duration owed_{0};            ///< what the prefill class may still hold before decode takes over
};

/// turn_order for threads: they sleep while they wait. Owned by the platform, shared by its devices;
/// thread-safe.
class host_turnstile {
 public:
  using ticket = turn_order::ticket;

  host_turnstile(double prefill_share, const core::clock& clock) : order_(prefill_share), clock_(clock) {}

  /// Waits for the turn.
  ticket begin(step_class kind);
  void end(ticket who);
  /// Cheap while no decode step waits.
  [[nodiscard]] bool should_lend(ticket who);
  /// Lets a decode step through if it is due, and waits until the turn is back.
  void pause(ticket who);

 private:
  void wait_for(std::unique_lock<std::mutex>& lock, ticket who);
  void publish();

  std::mutex mutex_;
  std::condition_variable changed_;
  turn_order order_;
  const core::clock& clock_;
  std::atomic<bool> decode_waits_{false};
};

}  // namespace yolk::gpu::host
