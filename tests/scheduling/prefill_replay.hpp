#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "scheduling/placement.hpp"
#include "tests/scheduling/trace.hpp"

namespace yolk::tests {

struct replay_options {
  std::uint32_t nodes = 8;
  double speed_up = 1.0;
  std::uint64_t cache_blocks = 5859;  ///< of each node: 3 M tokens
  double jitter_seconds = 0.0;        ///< arrivals move uniformly within so much, from the seed
  std::uint64_t seed = 1;
  double link_bytes_per_second = 0.0;  ///< between nodes; 0: the preset's
  scheduling::placement_options placement;
};

struct replay_outcome {
  std::vector<double> ttft_seconds;  ///< by request, sorted
  double mean_seconds = 0.0;
  double hit_ratio = 0.0;  ///< tokens
  double pulled_share = 0.0;
  [[nodiscard]] double percentile(double share) const;
};

/// The prefill side of a cluster alone, in order of arrival: each node a worker that computes one prompt
/// after another and an LRU cache; links are not contended; times are those of 8 x A800 with LLaMA3-70B.
replay_outcome replay_prefill(const std::vector<traced_request>& requests, std::string_view policy,
                              const replay_options& options);

}  // namespace yolk::tests
