#pragma once

#include <cstdint>
#include <deque>

namespace yolk::scheduling {

/// When a worker that takes requests in order will have done all that was placed on it. Owned by whoever
/// places; times are of any clock that does not go back.
class queue_estimate {
 public:
  void placed(std::uint64_t request, double service_seconds, double now_seconds);
  /// It left the worker, in whatever way. Unknown requests are ignored.
  void left(std::uint64_t request, double now_seconds);
  /// Predicted time until the queue is empty: the sum of service, less what the first has had of its own. A
  /// first that takes longer than predicted counts as about to end.
  [[nodiscard]] double seconds(double now_seconds) const;
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct entry {
    std::uint64_t request = 0;
    double service_seconds = 0.0;
  };
  std::deque<entry> entries_;
  double total_seconds_ = 0.0;
  double first_since_ = 0.0;
};

}  // namespace yolk::scheduling
