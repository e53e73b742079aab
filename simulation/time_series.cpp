#include "simulation/time_series.hpp"

#include <algorithm>
#include <cmath>

namespace yolk::simulation {

void time_series::reach(double seconds) {
  while (seconds >= bin_seconds_ * static_cast<double>(max_bins)) {
    for (std::size_t i = 0; i < bins_.size(); i += 2)
      bins_[i / 2] = bins_[i] + (i + 1 < bins_.size() ? bins_[i + 1] : 0.0);
    bins_.resize((bins_.size() + 1) / 2);
    bin_seconds_ *= 2;
  }
  const auto needed = static_cast<std::size_t>(seconds / bin_seconds_) + 1;
  if (bins_.size() < needed) bins_.resize(needed, 0.0);
}

void time_series::add(double seconds, double value) {
  reach(seconds);
  bins_[static_cast<std::size_t>(seconds / bin_seconds_)] += value;
}

void time_series::add_span(double begin, double end, double rate) {
  if (end <= begin) return;
  reach(end);
  auto bin = static_cast<std::size_t>(begin / bin_seconds_);
  while (begin < end) {
    const double bin_end = std::min(end, static_cast<double>(bin + 1) * bin_seconds_);
    bins_[bin++] += rate * std::max(0.0, bin_end - begin);
    begin = std::max(bin_end, begin);
    if (bin >= bins_.size()) break;
  }
}

std::vector<double> time_series::parts(double end, std::size_t count) const {
  std::vector<double> sums(count, 0.0);
  if (end <= 0) return sums;
  const double part_seconds = end / static_cast<double>(count);
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    // A bin that two parts share is theirs by the length of their shares.
    const double begin = static_cast<double>(i) * bin_seconds_;
    const double bin_end = begin + bin_seconds_;
    const auto first = static_cast<std::size_t>(begin / part_seconds);
    for (std::size_t part = first; part < count && static_cast<double>(part) * part_seconds < bin_end;
         ++part) {
      const double from = std::max(begin, static_cast<double>(part) * part_seconds);
      const double to = std::min(bin_end, static_cast<double>(part + 1) * part_seconds);
      sums[part] += bins_[i] * std::max(0.0, to - from) / bin_seconds_;
    }
  }
  return sums;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto count = std::min(a.size(), b.size());
  if (count < 2) return 0.0;
  double mean_a = 0, mean_b = 0;
  for (std::size_t i = 0; i < count; ++i) {
    mean_a += a[i] / static_cast<double>(count);
    mean_b += b[i] / static_cast<double>(count);
  }
  double both = 0, square_a = 0, square_b = 0;
  for (std::size_t i = 0; i < count; ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    square_a += (a[i] - mean_a) * (a[i] - mean_a);
    square_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return square_a > 0 && square_b > 0 ? both / std::sqrt(square_a * square_b) : 0.0;
}

}  // namespace yolk::simulation
