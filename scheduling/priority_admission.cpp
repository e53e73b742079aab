#include "scheduling/priority_admission.hpp"

#include <algorithm>

#include "core/random.hpp"

namespace yolk::scheduling {

priority_admission::priority_admission(const options& given)
    : options_(given), cursor_(std::int64_t{given.levels} - 1), came_(given.levels, 0) {}

bool priority_admission::admit(std::uint32_t level, double now_seconds) {
  if (!began_) {
    began_ = true;
    window_began_ = now_seconds;
  }
  if (now_seconds - window_began_ >= options_.window_seconds || came_count_ >= options_.window_requests)
    end_window(now_seconds);
  const std::uint32_t known = std::min(level, options_.levels - 1);
  ++came_[known];
  ++came_count_;
  const bool taken = std::int64_t{known} <= cursor_;
  admitted_count_ += taken ? 1 : 0;
  return taken;
}

void priority_admission::started(double queuing_seconds) {
  queuing_sum_ += queuing_seconds;
  ++started_count_;
}

void priority_admission::end_window(double now_seconds) {
  const bool overloaded =
      started_count_ > 0 && queuing_sum_ / started_count_ > options_.overload_queuing_seconds;
  // How many of this window's requests each cursor would have taken.
  double taken = 0.0;
  for (std::int64_t level = 0; level <= cursor_; ++level) taken += came_[static_cast<std::size_t>(level)];
  if (overloaded) {
    const double target = (1.0 - options_.decrease) * admitted_count_;
    while (cursor_ >= 0 && taken > target) taken -= came_[static_cast<std::size_t>(cursor_--)];
  } else {
    const double target = admitted_count_ + options_.increase * came_count_;
    while (cursor_ + 1 < std::int64_t{options_.levels} && taken < target)
      taken += came_[static_cast<std::size_t>(++cursor_)];
  }
  std::ranges::fill(came_, 0u);
  came_count_ = admitted_count_ = started_count_ = 0;
  queuing_sum_ = 0.0;
  window_began_ = now_seconds;
}

std::uint32_t level_of(std::string_view user, std::uint64_t epoch, const user_priority& priority) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, then mixed with the epoch
  for (const char c : user) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  const std::uint32_t per_class = std::max(priority.levels / std::max(priority.classes, 1u), 1u);
  const std::uint32_t within = core::philox(hash, epoch)[0] % per_class;
  return std::min(priority.service_class, std::max(priority.classes, 1u) - 1) * per_class + within;
}

}  // namespace yolk::scheduling
