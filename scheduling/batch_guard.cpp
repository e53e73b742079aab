#include "scheduling/batch_guard.hpp"

#include <algorithm>

#include "core/invariant.hpp"

namespace yolk::scheduling {

namespace {
/// 3/5 five times is three steps, whatever the sum's rounding.
constexpr double rounding = 1e-9;
}  // namespace

double step_seconds(const step_coefficients& c, double batch, double mean_context_tokens) {
  return c.alpha * batch * mean_context_tokens + c.beta * batch + c.gamma * mean_context_tokens + c.delta;
}

void batch_guard::add(double tpot_seconds) {
  ++counts_[tpot_seconds];
}

void batch_guard::remove(double tpot_seconds) {
  const auto found = counts_.find(tpot_seconds);
  YOLK_INVARIANT(found != counts_.end(), tpot_seconds);
  if (--found->second == 0) counts_.erase(found);
}

double batch_guard::virtual_batch_size() const {
  if (counts_.empty()) return 0.0;
  const double strictest = counts_.begin()->first;
  double sum = 0.0;
  for (const auto& [target, count] : counts_) sum += count * (strictest / target);
  return sum;
}

bool batch_guard::admits(const candidate& next) const {
  const double strictest =
      counts_.empty() ? next.tpot_seconds : std::min(counts_.begin()->first, next.tpot_seconds);
  double batch = strictest / next.tpot_seconds;
  for (const auto& [target, count] : counts_) batch += count * (strictest / target);
  const double context = next.mean_context_tokens + next.expected_output_tokens / 2;
  return options_.caution * step_seconds(options_.step, batch, context) < options_.margin * strictest;
}

std::vector<std::uint32_t> spend_credits(std::span<credited_sequence> sequences) {
  std::vector<std::uint32_t> run;
  if (sequences.empty()) return run;
  const double strictest =
      std::ranges::min_element(sequences, {}, &credited_sequence::tpot_seconds)->tpot_seconds;
  for (std::uint32_t index = 0; index < sequences.size(); ++index) {
    credited_sequence& sequence = sequences[index];
    sequence.credit += strictest / sequence.tpot_seconds;
    if (sequence.credit < 1.0 - rounding) continue;
    sequence.credit -= 1.0;
    run.push_back(index);
  }
  return run;
}

}  // namespace yolk::scheduling
