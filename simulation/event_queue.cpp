#include "simulation/event_queue.hpp"

#include <algorithm>
#include <utility>

#include "core/invariant.hpp"

namespace yolk::simulation {

void event_queue::at(core::time_point when, action what) {
  heap_.push_back({when, planned_++, std::move(what)});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

std::optional<core::time_point> event_queue::next() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front().when;
}

void event_queue::run_first() {
  YOLK_INVARIANT(!heap_.empty());
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const action what = std::move(heap_.back().what);
  heap_.pop_back();
  ++run_count_;
  what();
}

}  // namespace yolk::simulation
