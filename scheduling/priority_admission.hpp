#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace yolk::scheduling {

/// DAGOR (WeChat, SoCC'18): which requests a service takes, by a priority that a user has everywhere alike,
/// so that the calls of one task are taken or refused together. Level 0 is the most important. Owned by one
/// service; what it admits is told to its callers, who refuse the rest before sending it. Not thread-safe.
class priority_admission {
 public:
  struct options {
    std::uint32_t levels = 1024;
    double overload_queuing_seconds = 0.020;  ///< mean wait before service beyond which it is overloaded
    double window_seconds = 1.0;
    std::uint32_t window_requests = 2000;  ///< a window ends after so many, if they come sooner
    double decrease = 0.05;                ///< of those admitted, while overloaded
    double increase = 0.01;                ///< of those that came, while not
  };
  explicit priority_admission(const options& given);

  /// Counts the request and says whether it is taken. Levels beyond the last count as the last.
  bool admit(std::uint32_t level, double now_seconds);
  /// The time between arrival and start of one that was taken.
  void started(double queuing_seconds);
  /// Levels up to this are taken; less than 0: none is.
  [[nodiscard]] std::int64_t cursor() const { return cursor_; }

 private:
  void end_window(double now_seconds);

  options options_;
  std::int64_t cursor_;
  std::vector<std::uint32_t> came_;  // by level, within the window
  std::uint32_t came_count_ = 0;
  std::uint32_t admitted_count_ = 0;
  double queuing_sum_ = 0.0;
  std::uint32_t started_count_ = 0;
  double window_began_ = 0.0;
  bool began_ = false;
};

/// The level of a user: class first (0 is the most important), then a hash of the user that changes with
/// `epoch`, so that nobody is refused for ever.
struct user_priority {
  std::uint32_t service_class = 0;
  std::uint32_t classes = 8;
  std::uint32_t levels = 1024;  ///< over all classes
};
std::uint32_t level_of(std::string_view user, std::uint64_t epoch, const user_priority& priority);

}  // namespace yolk::scheduling
