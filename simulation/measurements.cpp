#include "simulation/measurements.hpp"

namespace yolk::simulation {

double measurements::seconds_since_start(core::time_point time) const {
  return std::chrono::duration<double>(time - start_).count();
}

void measurements::arrived(core::time_point now) {
  const double seconds = seconds_since_start(now);
  ++totals_.arrived;
  arrivals.add(seconds, 1);
  waiting.change(seconds, 1);
}

void measurements::first_token(core::time_point now) {
  const double seconds = seconds_since_start(now);
  ++totals_.first_tokens;
  waiting.change(seconds, -1);
  decoding.change(seconds, 1);
}

void measurements::ended(request_outcome outcome) {
  const double seconds = seconds_since_start(outcome.end);
  const bool began = outcome.first_token != core::time_point{};
  (began ? decoding : waiting).change(seconds, -1);
  totals_.resumes += outcome.resumes;
  const auto since_arrival = [&](core::time_point time) {
    return std::chrono::duration<double>(time - outcome.arrival).count();
  };
  if (began) {
    totals_.input_tokens += outcome.input_tokens;
    totals_.cached_tokens += outcome.cached_tokens;
    totals_.generated_tokens += outcome.output_tokens;
    ttft_.add(since_arrival(outcome.first_token));
    for (const float gap : outcome.gap_seconds) gaps_.add(gap);
  }
  if (outcome.how != request_end::finished) {
    ++(outcome.how == request_end::refused ? totals_.refused : totals_.failed);
    totals_.refused_after_first_token += began && outcome.how == request_end::refused ? 1 : 0;
    ++causes_[outcome.cause];
    refusals.add(seconds, 1);
    return;
  }
  ++totals_.finished;
  const double ttft = since_arrival(outcome.first_token);
  const double tbt = mean_of_largest_tenth(outcome.gap_seconds);
  tbt_.add(tbt);
  end_to_end_.add(since_arrival(outcome.end));
  const bool ttft_met = ttft <= slo_.ttft_seconds;
  const bool tbt_met = tbt <= slo_.tbt_seconds;
  totals_.ttft_met += ttft_met ? 1 : 0;
  totals_.tbt_met += tbt_met ? 1 : 0;
  totals_.both_met += ttft_met && tbt_met ? 1 : 0;
  if (ttft_met && tbt_met) goodput.add(seconds, 1);
}

void measurements::stepped(node_role role, const device_step& step) {
  const double begin = seconds_since_start(step.begin);
  const double elapsed = std::chrono::duration<double>(step.elapsed).count();
  if (role == node_role::prefill) {
    ++totals_.prefill_steps;
    totals_.prefill_busy_seconds += elapsed;
    prefill_busy.add_span(begin, begin + elapsed, 1);
    return;
  }
  ++totals_.decode_steps;
  totals_.decode_busy_seconds += elapsed;
  decode_busy.add_span(begin, begin + elapsed, elapsed);
  decode_sequences.add_span(begin, begin + elapsed, step.sequences);
}

}  // namespace yolk::simulation
