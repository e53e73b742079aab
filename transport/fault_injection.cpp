#include "transport/fault_injection.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "core/invariant.hpp"

namespace yolk::transport {
namespace {

struct place {
  std::uint64_t local = 0;
  std::uint64_t remote = 0;
};

/// Where byte `index` of a transfer lies on the two sides; the index is taken modulo the transfer's size.
std::optional<place> place_of(const std::vector<copy_range>& ranges, std::uint64_t index) {
  std::uint64_t total = 0;
  for (const copy_range& range : ranges) total += range.bytes;
  if (total == 0) return std::nullopt;
  index %= total;
  for (const copy_range& range : ranges) {
    if (index < range.bytes) return place{range.local_offset + index, range.remote_offset + index};
    index -= range.bytes;
  }
  return std::nullopt;
}

core::time_point after(core::time_point now, core::duration wait) {
  return wait > core::time_point::max() - now ? core::time_point::max() : now + wait;
}

}  // namespace

faulty_engine::faulty_engine(std::unique_ptr<transfer_engine> inner, const fault_plan& plan)
    : owned_(std::move(inner)), inner_(owned_.get()), plan_(plan), random_(plan.seed), thread_([this] {
        run();
      }) {
  YOLK_INVARIANT(inner_->region().size() > scratch_bytes, inner_->region().size());
}

faulty_engine::~faulty_engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (auto& [when, left] : schedule_) {
    left.what.done(core::failure<errc>{errc::stopped, "the engine ended"});
  }
  owned_.reset();  // its last completions still use the other members
}

std::span<std::byte> faulty_engine::region() {
  return inner_->region().first(inner_->region().size() - scratch_bytes);
}

void faulty_engine::set_plan(const fault_plan& plan) {
  const std::lock_guard lock(mutex_);
  plan_ = plan;
  random_ = core::random_source(plan.seed);
}

fault_counters faulty_engine::faults() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void faulty_engine::put(const region_descriptor& to, std::vector<copy_range> ranges, core::duration deadline,
                        completion done) {
  submit({true, to, std::move(ranges), after(std::chrono::steady_clock::now(), deadline), std::move(done)});
}

void faulty_engine::get(const region_descriptor& from, std::vector<copy_range> ranges,
                        core::duration deadline, completion done) {
  submit(
      {false, from, std::move(ranges), after(std::chrono::steady_clock::now(), deadline), std::move(done)});
}

// Each call draws the same count of numbers, so that one call's fate does not depend on the plan for the
// others.
fault faulty_engine::draw(core::duration& delay, blemish& where) {
  const std::uint64_t lot = random_.below(1000);
  delay = core::duration(
      random_.below(static_cast<std::uint64_t>(std::max<core::duration::rep>(plan_.max_delay.count(), 1))));
  where.at = random_();
  where.bit = static_cast<unsigned>(random_.below(8));
  std::uint64_t bound = plan_.delay_per_mille;
  if (lot < bound) return fault::delay;
  bound += plan_.drop_per_mille;
  if (lot < bound) return fault::drop;
  bound += plan_.fail_per_mille;
  if (lot < bound) return fault::fail;
  bound += plan_.corrupt_per_mille;
  return lot < bound ? fault::corrupt : fault::none;
}

void faulty_engine::submit(call asked) {
  core::duration delay{};
  blemish where;
  std::unique_lock lock(mutex_);
  const fault met = draw(delay, where);
  if (met == fault::delay) ++counters_.delayed;
  if (met == fault::drop) ++counters_.dropped;
  if (met == fault::fail) ++counters_.failed;
  if (met == fault::none || met == fault::corrupt) {
    lock.unlock();
    return pass_on(std::move(asked), met == fault::corrupt ? std::optional(where) : std::nullopt);
  }
  // Also a failure comes from another thread than the caller's, as it does in earnest.
  const auto now = std::chrono::steady_clock::now();
  const auto when = met == fault::drop    ? asked.deadline
                    : met == fault::delay ? std::min(now + delay, asked.deadline)
                                          : now;
  schedule_.emplace(when, later{met, std::move(asked)});
  changed_.notify_all();
}

void faulty_engine::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (schedule_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto next = schedule_.begin()->first;
    if (next > std::chrono::steady_clock::now()) {
      // Not wait_until(time_point::max()), which overflows.
      changed_.wait_until(lock, std::min(next, std::chrono::steady_clock::now() + std::chrono::hours(1)));
      continue;
    }
    later due = std::move(schedule_.extract(schedule_.begin()).mapped());
    lock.unlock();
    if (due.why == fault::delay) {
      pass_on(std::move(due.what), std::nullopt);
    } else if (due.why == fault::drop) {
      due.what.done(core::failure<errc>{errc::deadline_exceeded, "transfer dropped by the fault plan"});
    } else {
      due.what.done(core::failure<errc>{errc::peer_unreachable, "transfer failed by the fault plan"});
    }
    lock.lock();
  }
}

void faulty_engine::pass_on(call asked, const std::optional<blemish>& spoil) {
  const auto left = asked.deadline == core::time_point::max()
                        ? core::duration::max()
                        : asked.deadline - std::chrono::steady_clock::now();
  // Shared with the completion: the ranges are needed after the inner engine has taken its copy of them.
  const auto shared = std::make_shared<call>(std::move(asked));
  auto done = [this, shared, spoil](result<transfer_report> outcome) {
    if (!spoil || !outcome) return shared->done(std::move(outcome));
    if (shared->is_put) return spoil_put(*shared, *spoil, std::move(outcome));
    if (const auto where = place_of(shared->ranges, spoil->at)) {
      inner_->region()[where->local] ^= static_cast<std::byte>(1u << spoil->bit);
      const std::lock_guard lock(mutex_);
      ++counters_.corrupted;
    }
    shared->done(std::move(outcome));
  };
  if (shared->is_put) {
    inner_->put(shared->peer, shared->ranges, left, std::move(done));
  } else {
    inner_->get(shared->peer, shared->ranges, left, std::move(done));
  }
}

// The bytes have arrived; a second put of one byte, from the scratch, then makes one of them wrong.
void faulty_engine::spoil_put(const call& asked, const blemish& where, result<transfer_report> outcome) {
  const auto spot = place_of(asked.ranges, where.at);
  std::unique_lock lock(mutex_);
  if (!spot || free_scratch_ == 0) {
    lock.unlock();
    return asked.done(std::move(outcome));
  }
  const auto slot = static_cast<unsigned>(std::countr_zero(free_scratch_));
  free_scratch_ &= free_scratch_ - 1;
  lock.unlock();
  const std::uint64_t scratch = region().size() + slot;
  inner_->region()[scratch] = inner_->region()[spot->local] ^ static_cast<std::byte>(1u << where.bit);
  const auto left = asked.deadline == core::time_point::max()
                        ? core::duration::max()
                        : asked.deadline - std::chrono::steady_clock::now();
  auto finished = [this, slot, done = asked.done, outcome](const result<transfer_report>& spoiled) {
    {
      const std::lock_guard inner_lock(mutex_);
      free_scratch_ |= std::uint64_t{1} << slot;
      if (spoiled) ++counters_.corrupted;
    }
    done(outcome);
  };
  inner_->put(asked.peer, {{scratch, spot->remote, 1}}, left, std::move(finished));
}

}  // namespace yolk::transport
