#include "gpu/host/host_turnstile.hpp"

#include <algorithm>

#include "core/invariant.hpp"

namespace yolk::gpu::host {

turn_order::ticket turn_order::request(step_class kind, core::time_point now) {
  const ticket who = ++last_ticket_;
  (kind == step_class::decode ? decode_queue_ : prefill_queue_).push_back(who);
  if (!holder_) grant(now, false);
  return who;
}

void turn_order::release(ticket who, core::time_point now) {
  YOLK_INVARIANT(holder_ && holder_->who == who, who);
  const core::duration held = now - holder_->since;
  const bool decode_ended = holder_->kind == step_class::decode;
  holder_.reset();
  if (decode_ended) {
    // Of what the decode step took, a prefill step that waited meanwhile may take its share. Shares do not
    // pile up, and a prefill step that comes later has waited for nothing.
    owed_ = prefill_queue_.empty() ? core::duration{0}
                                   : std::chrono::duration_cast<core::duration>(held * prefill_share_);
  } else {
    owed_ = std::max(core::duration{0}, owed_ - held);
  }
  grant(now, decode_ended || owed_ > core::duration{0});
}

bool turn_order::should_lend(ticket who, core::time_point now) const {
  YOLK_INVARIANT(holder_ && holder_->who == who, who);
  return holder_->kind == step_class::prefill && decode_waits() && now - holder_->since >= owed_;
}

void turn_order::lend(ticket who, core::time_point now) {
  YOLK_INVARIANT(should_lend(who, now), who);
  prefill_queue_.push_front(who);
  holder_.reset();
  owed_ = core::duration{0};
  grant(now, false);
}

std::optional<turn_order::ticket> turn_order::holder() const {
  if (!holder_) return std::nullopt;
  return holder_->who;
}

void turn_order::grant(core::time_point now, bool prefill_first) {
  if (!prefill_queue_.empty() && (prefill_first || decode_queue_.empty())) {
    hold(prefill_queue_, step_class::prefill, now);
  } else if (!decode_queue_.empty()) {
    hold(decode_queue_, step_class::decode, now);
  }
}

void turn_order::hold(std::deque<ticket>& queue, step_class kind, core::time_point now) {
  holder_ = turn{.who = queue.front(), .kind = kind, .since = now};
  queue.pop_front();
}

host_turnstile::ticket host_turnstile::begin(step_class kind) {
  std::unique_lock lock(mutex_);
  const ticket who = order_.request(kind, clock_.now());
  publish();
  wait_for(lock, who);
  return who;
}

void host_turnstile::end(ticket who) {
  const std::lock_guard lock(mutex_);
  order_.release(who, clock_.now());
  publish();
}

bool host_turnstile::should_lend(ticket who) {
  if (!decode_waits_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(mutex_);
  return order_.should_lend(who, clock_.now());
}

void host_turnstile::pause(ticket who) {
  if (!decode_waits_.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(mutex_);
  const core::time_point now = clock_.now();
  if (!order_.should_lend(who, now)) return;
  order_.lend(who, now);
  publish();
  wait_for(lock, who);
}

void host_turnstile::wait_for(std::unique_lock<std::mutex>& lock, ticket who) {
  changed_.wait(lock, [&] { return order_.holder() == who; });
}

void host_turnstile::publish() {
  decode_waits_.store(order_.decode_waits(), std::memory_order_relaxed);
  changed_.notify_all();
}

}  // namespace yolk::gpu::host
