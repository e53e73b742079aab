#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduling/errc.hpp"

namespace yolk::scheduling {

/// A function of the prompt's length, given at some lengths; linear between and beyond them.
struct length_curve {
  std::vector<double> tokens;  ///< ascending, at least two
  std::vector<double> values;
  [[nodiscard]] double at(double token_count) const;
};

/// Prefill in another data centre behind a thin link (Prefill-as-a-Service, arXiv 2604.15039): prompts with
/// more than `threshold` uncached tokens are computed there, the others here.
struct remote_prefill_site {
  double remote_instances = 0.0;
  std::uint32_t local_instances = 2;    ///< prefill and decode together
  length_curve remote_prefill_seconds;  ///< of one instance
  length_curve local_prefill_seconds;
  length_curve kv_bytes;  ///< that cross the link
  double link_bytes_per_second = 0.0;
  double decode_requests_per_second = 0.0;  ///< of one local instance: batch / (time a token x output tokens)
};

/// What one choice gives. Rates are requests a second of the whole system.
struct remote_prefill_plan {
  double threshold_tokens = 0.0;
  std::uint32_t prefill_instances = 1;  ///< local
  std::uint32_t decode_instances = 1;
  double remote_share = 0.0;  ///< of the prompts
  double mean_tokens = 0.0;   ///< of all prompts
  double mean_remote_tokens = 0.0;
  double remote_bound = 0.0;  ///< the rate at which the remote site, or the link, is full
  double local_bound = 0.0;   ///< at which local prefill is full
  double decode_bound = 0.0;
  double throughput = 0.0;               ///< the least of these
  double egress_bytes_per_second = 0.0;  ///< at that throughput
};

/// `lengths`: uncached tokens of a sample of prompts, ascending, not empty.
remote_prefill_plan evaluate_remote_prefill(const remote_prefill_site& site, std::span<const double> lengths,
                                            double threshold_tokens, std::uint32_t prefill_instances);
/// The threshold and the split of local instances with the greatest throughput; of equal ones the one that
/// moves less. Fails with infeasible for fewer than two local instances or no lengths.
result<remote_prefill_plan> plan_remote_prefill(const remote_prefill_site& site,
                                                std::span<const double> lengths);

/// Evenly spaced quantiles of a lognormal distribution cut to [least, most].
struct lognormal {
  double mu = 0.0;
  double sigma = 1.0;
  double least = 0.0;
  double most = 1e300;
};
std::vector<double> quantiles_of(const lognormal& distribution, std::uint32_t count);

}  // namespace yolk::scheduling
