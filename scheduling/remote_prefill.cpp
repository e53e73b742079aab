#include "scheduling/remote_prefill.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/invariant.hpp"

namespace yolk::scheduling {

double length_curve::at(double token_count) const {
  YOLK_INVARIANT(tokens.size() >= 2 && tokens.size() == values.size(), tokens.size(), values.size());
  const auto above = std::ranges::upper_bound(tokens, token_count) - tokens.begin();
  const auto right = std::clamp<std::ptrdiff_t>(above, 1, static_cast<std::ptrdiff_t>(tokens.size()) - 1);
  const auto i = static_cast<std::size_t>(right);
  const double share = (token_count - tokens[i - 1]) / (tokens[i] - tokens[i - 1]);
  return values[i - 1] + share * (values[i] - values[i - 1]);
}

namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

double mean_of(std::span<const double> values) {
  return values.empty()
             ? 0.0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

remote_prefill_plan evaluate_remote_prefill(const remote_prefill_site& site, std::span<const double> lengths,
                                            double threshold_tokens, std::uint32_t prefill_instances) {
  const auto first =
      static_cast<std::size_t>(std::ranges::upper_bound(lengths, threshold_tokens) - lengths.begin());
  const auto here = lengths.first(first);
  const auto there = lengths.subspan(first);
  remote_prefill_plan plan{
      .threshold_tokens = threshold_tokens,
      .prefill_instances = prefill_instances,
      .decode_instances = site.local_instances - prefill_instances,
      .remote_share = static_cast<double>(there.size()) / static_cast<double>(lengths.size()),
      .mean_tokens = mean_of(lengths),
      .mean_remote_tokens = mean_of(there)};
  const double remote_bytes = there.empty() ? 0.0 : site.kv_bytes.at(plan.mean_remote_tokens);
  plan.remote_bound = unbounded;
  if (!there.empty()) {
    const double compute = site.remote_instances / site.remote_prefill_seconds.at(plan.mean_remote_tokens);
    plan.remote_bound = std::min(compute, site.link_bytes_per_second / remote_bytes) / plan.remote_share;
  }
  plan.local_bound = unbounded;
  if (!here.empty())
    plan.local_bound =
        prefill_instances / site.local_prefill_seconds.at(mean_of(here)) / (1.0 - plan.remote_share);
  plan.decode_bound = plan.decode_instances * site.decode_requests_per_second;
  plan.throughput = std::min({plan.remote_bound, plan.local_bound, plan.decode_bound});
  plan.egress_bytes_per_second = plan.throughput * plan.remote_share * remote_bytes;
  return plan;
}

result<remote_prefill_plan> plan_remote_prefill(const remote_prefill_site& site,
                                                std::span<const double> lengths) {
  if (site.local_instances < 2 || lengths.empty())
    return core::failure<errc>{errc::infeasible, "a plan needs two local instances and some lengths"};
  constexpr std::size_t grid = 512;
  remote_prefill_plan best;
  for (std::uint32_t prefill = 1; prefill < site.local_instances; ++prefill) {
    // Local work grows and remote work falls with the threshold, so the throughput rises and then falls; the
    // grid follows the prompts, and its steps are those of the remote share.
    for (std::size_t step = 0; step <= grid; ++step) {
      const std::size_t index = std::min(step * lengths.size() / grid, lengths.size() - 1);
      const double threshold = step == 0 ? 0.0 : lengths[index];
      const auto plan = evaluate_remote_prefill(site, lengths, threshold, prefill);
      const bool more = plan.throughput > best.throughput;
      const bool lighter =
          plan.throughput == best.throughput && plan.egress_bytes_per_second < best.egress_bytes_per_second;
      if (more || lighter) best = plan;
    }
  }
  return best;
}

std::vector<double> quantiles_of(const lognormal& distribution, std::uint32_t count) {
  const auto cumulative = [&](double x) {
    return x <= 0.0
               ? 0.0
               : 0.5 * std::erfc(-(std::log(x) - distribution.mu) / (distribution.sigma * std::sqrt(2.0)));
  };
  const double low = cumulative(distribution.least);
  const double high = cumulative(distribution.most);
  std::vector<double> values;
  for (std::uint32_t i = 0; i < count; ++i) {
    const double share = low + (high - low) * (i + 0.5) / count;
    // By bisection over the logarithm.
    double left = std::log(std::max(distribution.least, 1e-300));
    double right = std::log(distribution.most);
    for (int halving = 0; halving < 60; ++halving) {
      const double middle = (left + right) / 2;
      (cumulative(std::exp(middle)) < share ? left : right) = middle;
    }
    values.push_back(std::exp((left + right) / 2));
  }
  return values;
}

}  // namespace yolk::scheduling
