#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "scheduling/decode_forecast.hpp"
#include "scheduling/placement.hpp"
#include "scheduling/slo.hpp"

namespace yolk::scheduling {

/// When a request is refused for the sake of its class's targets. Load is predicted time over target
/// (Mooncake, arXiv 2407.00079, section 7): above 1 the target would be missed.
/// - none: never.
/// - baseline: prefill load at arrival, decode load after the prefill, which is then lost.
/// - early: at arrival, the greater of the prefill load and the decode pool's load now.
/// - predicted: at arrival, the greater of the prefill load and the decode pool's load when the prefill will
///   have ended.
/// - hold: at arrival, the prefill load, in which waiting for room at decode counts, too: what was admitted
/// is
///   held until the decode worker is predicted to have room when the prefill will have ended. Yolk's own.
/// Under baseline, early and predicted the decode worker's own load is looked at once more after the prefill,
/// as Mooncake's do; under hold nothing is refused then.
enum class admission_rule : std::uint8_t { none, baseline, early, predicted, hold };

/// "none", "baseline", "early", "predicted", "hold".
std::span<const std::string_view> admission_rule_names();
std::optional<admission_rule> find_admission_rule(std::string_view name);
inline constexpr std::string_view default_admission_rule = "none";

enum class refusal_cause : std::uint8_t { none, prefill, decode };

struct slo_decision {
  refusal_cause cause = refusal_cause::none;
  double prefill_load = 0.0;  ///< as far as the rule looked at it; else 0
  double decode_load = 0.0;
  std::uint32_t retry_after_seconds =
      0;  ///< when refused: until the load is predicted to allow it; at least 1
  [[nodiscard]] bool admitted() const { return cause == refusal_cause::none; }
};

/// What a decision is made from. Lives for one call.
struct slo_view {
  double now_seconds = 0.0;
  const slo_class* slo = nullptr;
  std::uint32_t highest_priority = 0;  ///< of all classes
  const placement* where = nullptr;    ///< where it would go, or went
  decode_shape share;                  ///< what it adds to its decode worker
  decode_shape held_before;            ///< of those that are held and would go before it
  std::uint32_t decode_workers = 1;    ///< > 0
  const decode_forecast* forecast = nullptr;
  const corrected_model* latency = nullptr;
};

/// Requests of a lower priority are refused at a lower load: each step below the highest takes so much off
/// the limit of 1.
inline constexpr double load_reserved_per_priority = 0.1;
inline constexpr double least_load_limit = 0.5;
/// Under hold the decode load stays below this: what a forecast cannot see must not cost the targets of those
/// that are there.
inline constexpr double held_decode_limit = 0.9;
double load_limit(std::uint32_t priority, std::uint32_t highest_priority);

/// At arrival, with the placement that it would get.
slo_decision judge_arrival(admission_rule rule, const slo_view& view);
/// Whether a prompt that was admitted is to be held all the same: its decode worker would be too slow.
bool must_hold(admission_rule rule, const slo_view& view);
/// When its prefill has ended.
slo_decision judge_after_prefill(admission_rule rule, const slo_view& view);

}  // namespace yolk::scheduling
