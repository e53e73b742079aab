#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace yolk::scheduling {

/// Time of one decode step: alpha B L + beta B + gamma L + delta, in seconds; B: batch, L: mean context.
struct step_coefficients {
  double alpha = 0.0;
  double beta = 0.0;
  double gamma = 0.0;
  double delta = 0.0;
};

double step_seconds(const step_coefficients& coefficients, double batch, double mean_context_tokens);

/// SCORPIO's TPOT guard (arXiv 2505.23022). A request whose target is a multiple of the strictest one need
/// not run in every step: it counts as the fraction min S / S_r of a sequence, and the batch as the sum of
/// these (virtual batch size). Not thread-safe; owned by whoever forms the batch.
class batch_guard {
 public:
  struct options {
    step_coefficients step;
    double caution = 1.0;  ///< epsilon: factor on the estimate
    double margin = 0.99;  ///< of the strictest target
  };
  explicit batch_guard(const options& given) : options_(given) {}

  void add(double tpot_seconds);
  void remove(double tpot_seconds);  ///< one that was added with exactly this target
  /// Of what was added; O(number of distinct targets).
  [[nodiscard]] double virtual_batch_size() const;
  /// Whether all targets would still be met with one more.
  struct candidate {
    double tpot_seconds = 0.0;
    double expected_output_tokens = 0.0;
    double mean_context_tokens = 0.0;  ///< of the batch with it
  };
  [[nodiscard]] bool admits(const candidate& next) const;

 private:
  options options_;
  std::map<double, std::uint32_t> counts_;  ///< by target
};

/// Credits: in each step a sequence earns min S / S_r, and runs when it has a whole one, which it pays.
struct credited_sequence {
  double tpot_seconds = 0.0;
  double credit = 0.0;
};

/// The indices of those that run in this step, in order; their credits are paid. Never empty for a list that
/// is not: the strictest run in every step.
std::vector<std::uint32_t> spend_credits(std::span<credited_sequence> sequences);

}  // namespace yolk::scheduling
