#include "scheduling/slo_admission.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "scheduling/admission.hpp"

namespace yolk::scheduling {

namespace {

constexpr std::array<std::string_view, 5> names{"none", "baseline", "early", "predicted", "hold"};

std::uint32_t in_seconds(double wait) {
  if (!(wait > 1.0)) return 1;
  return static_cast<std::uint32_t>(std::min<double>(std::ceil(wait), max_retry_after_seconds));
}

/// The pool's sum, spread evenly, with the request's own share in one of the batches.
double pool_load(decode_shape sum, const slo_view& view) {
  const std::uint32_t workers = std::max(view.decode_workers, 1u);
  const double seconds = view.latency->decode_seconds(
      {.sequences = sum.sequences / workers + view.share.sequences,
       .context_tokens = sum.context_tokens / workers + view.share.context_tokens});
  return seconds / view.slo->tbt_seconds;
}

double worker_load(decode_shape batch, const slo_view& view) {
  const double seconds =
      view.latency->decode_seconds({.sequences = batch.sequences + view.share.sequences,
                                    .context_tokens = batch.context_tokens + view.share.context_tokens});
  return seconds / view.slo->tbt_seconds;
}

/// How many of the sequences must have left for the load to be at its limit: as if the load were
/// proportional to them.
double wait_for_decode(const slo_view& view, double from_seconds, double load, double limit) {
  const decode_shape there = view.forecast->all_at(from_seconds);
  const auto most = static_cast<std::uint32_t>(there.sequences * std::clamp(limit / load, 0.0, 1.0));
  return view.forecast->time_until_sequences(from_seconds, most) - from_seconds;
}

/// Until decode has room for a request that is held, by Little's law: all workers at their limit serve as
/// many sequences as fit, each for the usual time.
double wait_for_room(const slo_view& view) {
  const auto& decode = view.latency->model().coefficients().decode;
  const decode_shape there = view.forecast->all();
  const double sequences = there.sequences + view.held_before.sequences + view.share.sequences;
  const double context = static_cast<double>(there.context_tokens) +
                         static_cast<double>(view.held_before.context_tokens) +
                         static_cast<double>(view.share.context_tokens);
  const double one = view.latency->decode_seconds({.sequences = 1, .context_tokens = 0});
  const double factor = decode.base_seconds > 0.0 ? one / decode.base_seconds : 1.0;
  const double per_sequence =
      factor * (decode.per_sequence + decode.per_context_token * context / std::max(sequences, 1.0));
  const double budget = held_decode_limit * view.slo->tbt_seconds - one;
  // A worker takes at least one, however slow it is then.
  const double fit =
      per_sequence > 0.0 ? std::max(1.0, 1.0 + budget / per_sequence) : std::numeric_limits<double>::max();
  const double room = fit * std::max(view.decode_workers, 1u);
  return std::max(0.0, sequences - room) * view.forecast->decode_seconds() / room;
}

slo_decision decide(const slo_view& view, double prefill_load, double decode_load, double decode_seconds) {
  const double limit = load_limit(view.slo->priority, view.highest_priority);
  slo_decision decision{.prefill_load = prefill_load, .decode_load = decode_load};
  if (prefill_load > limit) {
    decision.cause = refusal_cause::prefill;
    // The queue shrinks by a second a second.
    decision.retry_after_seconds = in_seconds((prefill_load - limit) * view.slo->ttft_seconds);
  } else if (decode_load > limit) {
    decision.cause = refusal_cause::decode;
    decision.retry_after_seconds = in_seconds(wait_for_decode(view, decode_seconds, decode_load, limit));
  }
  return decision;
}

}  // namespace

std::span<const std::string_view> admission_rule_names() {
  return names;
}

std::optional<admission_rule> find_admission_rule(std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<admission_rule>(found - names.begin());
}

double load_limit(std::uint32_t priority, std::uint32_t highest_priority) {
  const double below = highest_priority > priority ? highest_priority - priority : 0;
  return std::max(least_load_limit, 1.0 - load_reserved_per_priority * below);
}

slo_decision judge_arrival(admission_rule rule, const slo_view& view) {
  if (rule == admission_rule::none) return {};
  const double prefill_load = view.where->predicted_ttft_seconds / view.slo->ttft_seconds;
  const double then = view.now_seconds + view.where->predicted_ttft_seconds;
  switch (rule) {
    case admission_rule::early:
      return decide(view, prefill_load, pool_load(view.forecast->all_decoding(), view), view.now_seconds);
    case admission_rule::predicted:
      return decide(view, prefill_load, pool_load(view.forecast->all_at(then), view), then);
    case admission_rule::hold: {
      const double first_token =
          std::max(view.where->predicted_ttft_seconds, wait_for_room(view) + view.where->service_seconds);
      return decide(view, first_token / view.slo->ttft_seconds, 0.0, then);
    }
    default:
      return decide(view, prefill_load, 0.0, then);
  }
}

bool must_hold(admission_rule rule, const slo_view& view) {
  if (rule != admission_rule::hold) return false;
  const double then = view.now_seconds + view.where->predicted_ttft_seconds;
  const auto batch = view.forecast->worker_expected_at(
      view.where->decode, {.now_seconds = view.now_seconds, .when_seconds = then});
  // An empty worker takes what is too much for any.
  return batch.sequences > 0 && worker_load(batch, view) > held_decode_limit;
}

slo_decision judge_after_prefill(admission_rule rule, const slo_view& view) {
  if (rule == admission_rule::none || rule == admission_rule::hold) return {};
  const decode_shape batch = view.forecast->worker_decoding(view.where->decode);
  return decide(view, 0.0, worker_load(batch, view), view.now_seconds);
}

}  // namespace yolk::scheduling
