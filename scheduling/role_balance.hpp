#pragma once

#include <cstdint>

namespace yolk::scheduling {

enum class role_change : std::uint8_t { none, to_prefill, to_decode };

/// Work that arrives for each role, whether it was admitted or not: seconds of one worker a second (prefill:
/// arrivals x mean prefill; decode: arrivals x mean share of a full batch x time in it).
struct role_demand {
  double prefill = 0.0;
  double decode = 0.0;
};

struct role_counts {
  std::uint32_t prefill = 1;
  std::uint32_t decode = 1;
};

/// The prefill workers of `total` (at least 2) with which the busier role is the least busy; ties to fewer.
std::uint32_t balanced_prefill_count(std::uint32_t total, const role_demand& demand);

/// Moves one worker at a time towards the throughput balance (P/D-Serve, arXiv 2408.08147, adjusts the ratio
/// of its groups so), and none while the gain is small or young: a change costs a drained worker and its
/// cache. Times are of any clock that does not go back. Not thread-safe.
class role_balancer {
 public:
  struct options {
    double smoothing_seconds = 300.0;  ///< of the demand
    double least_gain = 0.05;          ///< by which the busier role's load must fall
    double patience_seconds = 60.0;    ///< for which the gain must last
    double pause_seconds = 60.0;       ///< between two changes
  };
  explicit role_balancer(const options& given) : options_(given) {}

  /// Called every so often with what was measured since the last call. At most one worker, and never the
  /// last of a role.
  role_change decide(double now_seconds, const role_counts& counts, const role_demand& demand);
  [[nodiscard]] role_demand smoothed() const { return smoothed_; }

 private:
  options options_;
  bool began_ = false;
  double last_seconds_ = 0.0;
  role_demand smoothed_;
  role_change wanted_ = role_change::none;
  double wanted_since_ = 0.0;
  double changed_at_ = 0.0;
};

}  // namespace yolk::scheduling
