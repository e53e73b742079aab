#pragma once

#include <cstddef>
#include <vector>

namespace yolk::simulation {

/// Sums over equal intervals of time from 0 on, in seconds. When there are too many intervals, each two
/// become one: the memory is bounded, however long the time.
class time_series {
 public:
  static constexpr std::size_t max_bins = 4096;

  /// At one moment.
  void add(double seconds, double value);
  /// Spread evenly from `begin` to `end`; the integral over a bin is `rate` times its part.
  void add_span(double begin, double end, double rate);

  [[nodiscard]] double bin_seconds() const { return bin_seconds_; }
  /// The sums, over `count` equal parts of [0, end).
  [[nodiscard]] std::vector<double> parts(double end, std::size_t count) const;

 private:
  void reach(double seconds);

  double bin_seconds_ = 1.0;
  std::vector<double> bins_;
};

/// The time integral of a number that changes in steps.
class level_series {
 public:
  void change(double seconds, double by) {
    if (seconds > since_) series_.add_span(since_, seconds, level_);
    since_ = seconds;
    level_ += by;
  }
  [[nodiscard]] double level() const { return level_; }
  [[nodiscard]] const time_series& series() const { return series_; }

 private:
  time_series series_;
  double level_ = 0.0;
  double since_ = 0.0;
};

/// Pearson's; 0 when either does not vary.
double correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace yolk::simulation
