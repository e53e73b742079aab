#include "simulation/histogram.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace yolk::simulation {

namespace {

constexpr double smallest = 1e-9;

}  // namespace

void histogram::add(double value, std::uint64_t count) {
  const double kept = std::max(value, smallest);
  buckets_[static_cast<int>(std::ceil(std::log(kept) / std::log(growth)))] += count;
  count_ += count;
  sum_ += value * static_cast<double>(count);
  largest_ = std::max(largest_, value);
}

double histogram::quantile(double share) const {
  if (count_ == 0) return 0.0;
  const auto wanted = std::max(1.0, std::ceil(share * static_cast<double>(count_)));
  double seen = 0;
  for (const auto& [bucket, count] : buckets_) {
    seen += static_cast<double>(count);
    if (seen >= wanted) return std::min(std::pow(growth, bucket), largest_);
  }
  return largest_;
}

std::vector<histogram::point> histogram::cumulative() const {
  std::vector<point> points;
  double seen = 0;
  for (const auto& [bucket, count] : buckets_) {
    seen += static_cast<double>(count);
    points.push_back({std::min(std::pow(growth, bucket), largest_), seen / static_cast<double>(count_)});
  }
  return points;
}

double mean_of_largest_tenth(std::vector<float>& values) {
  if (values.empty()) return 0.0;
  const auto count = std::max<std::size_t>(1, values.size() / 10);
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(values.begin(), end - 1, values.end(), std::greater<>());
  double sum = 0;
  for (auto value = values.begin(); value != end; ++value) sum += *value;
  return sum / static_cast<double>(count);
}

}  // namespace yolk::simulation
