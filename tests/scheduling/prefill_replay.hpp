#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "scheduling/placement.hpp"
#include "scheduling/slo_admission.hpp"
#include "tests/scheduling/trace.hpp"

namespace yolk::tests {

struct replay_options {
  std::uint32_t nodes = 8;         ///< that prefill
  std::uint32_t decode_nodes = 0;  ///< 0: the prefill side alone
  double speed_up = 1.0;
  std::uint64_t cache_blocks = 5859;  ///< of each node: 3 M tokens
  double jitter_seconds = 0.0;        ///< arrivals move uniformly within so much, from the seed
  std::uint64_t seed = 1;
  double link_bytes_per_second = 0.0;  ///< between nodes; 0: the preset's
  scheduling::placement_options placement;
  scheduling::admission_rule rule = scheduling::admission_rule::none;
  scheduling::slo_class slo;
};

struct replay_outcome {
  std::vector<double> ttft_seconds;  ///< of the prompts that were computed, sorted
  double mean_seconds = 0.0;
  double hit_ratio = 0.0;  ///< tokens
  double pulled_share = 0.0;
  std::uint32_t refused_early = 0;  ///< at arrival
  std::uint32_t refused_late = 0;   ///< after the prefill
  std::uint32_t finished = 0;       ///< decoded to their end; 0 without decode nodes
  std::uint32_t met = 0;            ///< finished, and within both targets
  [[nodiscard]] double percentile(double share) const;
};

/// A cluster in virtual time: each prefill node computes one prompt after another and has an LRU cache; each
/// decode node steps over its whole batch; links are not contended; times are those of 8 x A800 with
/// LLaMA3-70B. Placement and admission are the product's.
replay_outcome replay_prefill(const std::vector<traced_request>& requests, std::string_view policy,
                              const replay_options& options);

}  // namespace yolk::tests
