#include "transport/submission_queue.hpp"

#include <utility>

#include "core/invariant.hpp"

namespace yolk::transport {
namespace {

bool same_region(const region_descriptor& a, const region_descriptor& b) {
  return a.owner == b.owner && a.worker_address == b.worker_address && a.remote_key == b.remote_key;
}

}  // namespace

submission_queue::answer submission_queue::push(submission& asked) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return answer::stopped;
  if (asked.kind == submission_kind::forget) {
    // Not limited by number, but by this: between two transfers a peer is forgotten once.
    if (is_forgotten_already(asked.peer)) return answer::taken;
  } else {
    if (open_ >= max_transfers_) return answer::full;
    ++open_;
  }
  pending_.push_back(std::move(asked));
  return pending_.size() == 1 ? answer::taken_first : answer::taken;
}

bool submission_queue::is_forgotten_already(const region_descriptor& peer) const {
  for (auto at = pending_.rbegin(); at != pending_.rend(); ++at) {
    if (same_region(at->peer, peer)) return at->kind == submission_kind::forget;
  }
  return false;
}

std::vector<submission> submission_queue::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(pending_, {});
}

void submission_queue::completed() {
  const std::lock_guard lock(mutex_);
  YOLK_INVARIANT(open_ > 0);
  --open_;
}

void submission_queue::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
}

bool submission_queue::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

std::uint64_t submission_queue::open_transfers() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

}  // namespace yolk::transport
