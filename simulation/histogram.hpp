#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace yolk::simulation {

/// Positive values in buckets whose bounds grow by `growth`: quantiles are exact to that factor. Memory is
/// bounded by the ratio of the largest to the smallest value.
class histogram {
 public:
  static constexpr double growth = 1.02;

  void add(double value, std::uint64_t count = 1);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }
  [[nodiscard]] double largest() const { return largest_; }
  /// The least value that is not below `share` of the values; 0 when there are none.
  [[nodiscard]] double quantile(double share) const;

  struct point {
    double value = 0.0;
    double share = 0.0;  ///< of the values that are at most `value`
  };
  [[nodiscard]] std::vector<point> cumulative() const;

 private:
  std::map<int, std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  double sum_ = 0.0;
  double largest_ = 0.0;
};

/// The mean of the largest tenth of the values, at least of one (a request's TBT); 0 when there are none.
/// Orders the values anew.
double mean_of_largest_tenth(std::vector<float>& values);

}  // namespace yolk::simulation
