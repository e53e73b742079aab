#include "scheduling/slo_admission.hpp"

#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "core/random.hpp"
#include "scheduling/admission.hpp"

using namespace yolk;
using namespace yolk::scheduling;

namespace {

constexpr core::worker_id first{1};
constexpr core::worker_id second{2};

/// A step takes 10 ms a sequence.
latency_coefficients by_sequences() {
  latency_coefficients coefficients;
  coefficients.decode = {.base_seconds = 0.01, .per_sequence = 0.01};
  return coefficients;
}

struct fixture {
  corrected_model latency{by_sequences(), {}};
  slo_class slo{.ttft_seconds = 10.0, .tbt_seconds = 0.1};
  decode_forecast forecast{{.decode_seconds = 20.0}};
  placement where{.prefill = {7}, .decode = first, .predicted_ttft_seconds = 2.0};
  std::uint64_t next = 0;

  void decoding(core::worker_id worker, int count, double since) {
    for (int i = 0; i < count; ++i) {
      forecast.placed(next, worker, {1, 0}, since);
      forecast.decoding(next++, since);
    }
  }
  void in_prefill(core::worker_id worker, int count, double end) {
    for (int i = 0; i < count; ++i) forecast.placed(next++, worker, {1, 0}, end);
  }
  [[nodiscard]] slo_view view(double now) const {
    return {.now_seconds = now,
            .slo = &slo,
            .where = &where,
            .share = {1, 0},
            .decode_workers = 2,
            .forecast = &forecast,
            .latency = &latency};
  }
  [[nodiscard]] refusal_cause at_arrival(admission_rule rule, double now) const {
    return judge_arrival(rule, view(now)).cause;
  }
};

}  // namespace

TEST_CASE("rules are found by their names") {
  CHECK(admission_rule_names().size() == 5);
  for (const auto name : admission_rule_names()) CHECK(find_admission_rule(name));
  CHECK(find_admission_rule("predicted") == admission_rule::predicted);
  CHECK(find_admission_rule(default_admission_rule) == admission_rule::none);
  CHECK_FALSE(find_admission_rule("always"));
}

TEST_CASE("an idle cluster takes everything under every rule") {
  fixture idle;
  for (const auto name : admission_rule_names()) {
    CHECK(judge_arrival(*find_admission_rule(name), idle.view(0)).admitted());
    CHECK(judge_after_prefill(*find_admission_rule(name), idle.view(0)).admitted());
  }
}

TEST_CASE("a TTFT predicted beyond its target is refused at arrival, and told when the queue will do") {
  fixture busy;
  busy.where.predicted_ttft_seconds = 14.2;
  for (const auto rule :
       {admission_rule::baseline, admission_rule::early, admission_rule::predicted, admission_rule::hold}) {
    const auto decision = judge_arrival(rule, busy.view(0));
    CHECK(decision.cause == refusal_cause::prefill);
    CHECK(decision.prefill_load == doctest::Approx(1.42));
    CHECK(decision.retry_after_seconds == 5);
  }
  CHECK(busy.at_arrival(admission_rule::none, 0) == refusal_cause::none);
  busy.where.predicted_ttft_seconds = 1e300;
  CHECK(judge_arrival(admission_rule::early, busy.view(0)).retry_after_seconds == max_retry_after_seconds);
}

TEST_CASE("the baseline finds out that decode is full only after the prefill") {
  fixture full;
  full.decoding(first, 12, 0);
  full.decoding(second, 12, 0);
  CHECK(full.at_arrival(admission_rule::baseline, 1) == refusal_cause::none);
  CHECK(judge_after_prefill(admission_rule::baseline, full.view(1)).cause == refusal_cause::decode);
  CHECK(full.at_arrival(admission_rule::early, 1) == refusal_cause::decode);
  // The decode worker's own load is looked at again by all rules of Mooncake's, not by Yolk's.
  for (const auto rule : {admission_rule::early, admission_rule::predicted})
    CHECK(judge_after_prefill(rule, full.view(1)).cause == refusal_cause::decode);
  for (const auto rule : {admission_rule::none, admission_rule::hold})
    CHECK(judge_after_prefill(rule, full.view(1)).admitted());
  fixture elsewhere;
  elsewhere.decoding(second, 30, 0);
  CHECK(judge_after_prefill(admission_rule::baseline, elsewhere.view(1)).admitted());
}

TEST_CASE("prediction refuses for what is still in prefill, and not for what will have ended") {
  fixture soon;
  soon.in_prefill(first, 12, 1.5);
  soon.in_prefill(second, 12, 1.5);
  CHECK(soon.at_arrival(admission_rule::early, 0) == refusal_cause::none);
  CHECK(soon.at_arrival(admission_rule::predicted, 0) == refusal_cause::decode);
  fixture ending;
  ending.decoding(first, 12, 0);
  ending.decoding(second, 12, 0);
  // At 19 s the prefill would end at 21 s, when all have decoded for longer than the usual 20 s.
  CHECK(ending.at_arrival(admission_rule::early, 19) == refusal_cause::decode);
  CHECK(ending.at_arrival(admission_rule::predicted, 19) == refusal_cause::none);
}

TEST_CASE("a request is held while its own decode worker is full, and for no other") {
  fixture uneven;
  uneven.decoding(second, 30, 0);
  uneven.forecast.placed(1000, first, {1, 0}, 0);
  CHECK(uneven.at_arrival(admission_rule::predicted, 1) == refusal_cause::decode);
  CHECK_FALSE(must_hold(admission_rule::hold, uneven.view(1)));
  uneven.where.decode = second;
  CHECK(must_hold(admission_rule::hold, uneven.view(1)));
  for (const auto rule :
       {admission_rule::none, admission_rule::baseline, admission_rule::early, admission_rule::predicted})
    CHECK_FALSE(must_hold(rule, uneven.view(1)));
  // A worker with nothing takes what is too slow for any.
  fixture strict;
  strict.slo.tbt_seconds = 1e-9;
  CHECK_FALSE(must_hold(admission_rule::hold, strict.view(1)));
}

TEST_CASE("with holding, the time until decode has room counts into the time to first token") {
  fixture full;
  // At 90 ms nine sequences fit on a worker, 18 on both; each stays for 20 s.
  full.decoding(first, 9, 0);
  full.decoding(second, 9, 0);
  full.where.service_seconds = 2.0;
  const auto one_more = judge_arrival(admission_rule::hold, full.view(1));
  CHECK(one_more.admitted());
  CHECK(one_more.prefill_load == doctest::Approx((20.0 / 18 + 2.0) / 10.0));
  auto view = full.view(1);
  view.held_before = {8, 0};
  const auto refused = judge_arrival(admission_rule::hold, view);
  CHECK(refused.cause == refusal_cause::prefill);
  CHECK(refused.prefill_load == doctest::Approx((9 * 20.0 / 18 + 2.0) / 10.0));
  CHECK(refused.retry_after_seconds == 2);
}

TEST_CASE("who is refused for decode is told when enough will have ended") {
  fixture full;
  full.decoding(first, 6, 0.0);
  full.decoding(second, 6, 0.0);
  full.decoding(first, 6, 8.0);
  full.decoding(second, 6, 8.0);
  const auto decision = judge_arrival(admission_rule::early, full.view(10.0));
  CHECK(decision.cause == refusal_cause::decode);
  CHECK(decision.decode_load == doctest::Approx(1.3));
  CHECK(decision.retry_after_seconds == 10);  // those of 0 s end at 20 s
}

TEST_CASE("a lower priority is refused at a lower load") {
  fixture loaded;
  loaded.where.predicted_ttft_seconds = 9.5;
  auto view = loaded.view(0);
  view.highest_priority = 2;
  loaded.slo.priority = 2;
  CHECK(judge_arrival(admission_rule::early, view).admitted());
  loaded.slo.priority = 1;
  CHECK_FALSE(judge_arrival(admission_rule::early, view).admitted());
  CHECK(load_limit(0, 0) == 1.0);
  CHECK(load_limit(0, 1000) == least_load_limit);
  CHECK(load_limit(5, 2) == 1.0);
}

TEST_CASE("the usual time in decode is learnt from those that end") {
  decode_forecast forecast({.decode_seconds = 10.0, .weight = 0.1});
  CHECK(forecast.decode_seconds() == 10.0);
  forecast.placed(1, first, {2, 100}, 5.0);
  CHECK(forecast.all_at(4.0).sequences == 0);
  CHECK(forecast.all_at(5.0).context_tokens == 100);
  CHECK(forecast.worker_at(second, 5.0).sequences == 0);
  CHECK(forecast.all_decoding().sequences == 0);
  forecast.decoding(1, 6.0);
  CHECK(forecast.all_decoding().sequences == 2);
  CHECK(forecast.worker_decoding(first).sequences == 2);
  CHECK(forecast.worker_decoding(second).sequences == 0);
  CHECK(forecast.all().context_tokens == 100);
  // After ten seconds, the usual time, a third is expected to be there still.
  CHECK(forecast.worker_expected_at(first, {.now_seconds = 6, .when_seconds = 6}).context_tokens == 100);
  CHECK(forecast.worker_expected_at(first, {.now_seconds = 6, .when_seconds = 16}).context_tokens == 36);
  CHECK(forecast.all_at(15.9).sequences == 2);
  CHECK(forecast.all_at(16.0).sequences == 0);
  forecast.ended(1, 10.0);
  CHECK(forecast.decode_seconds() == doctest::Approx(4.0));
  forecast.placed(2, first, {1, 1}, 10.0);
  forecast.ended(2, 50.0);  // never decoded: teaches nothing
  CHECK(forecast.decode_seconds() == doctest::Approx(4.0));
  forecast.ended(3, 50.0);
  CHECK(forecast.size() == 0);
  CHECK(forecast.all().sequences == 0);
  CHECK(forecast.all_decoding().sequences == 0);
}

TEST_CASE("the first time with few enough sequences is the one that a look at every end would find") {
  const std::uint64_t seed = 17;
  MESSAGE("seed ", seed);
  core::random_source random(seed);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    decode_forecast forecast({.decode_seconds = 5.0});
    std::vector<double> ends;
    for (std::uint64_t id = 0; id < random.below(20); ++id) {
      const double begin = static_cast<double>(random.below(100)) / 10.0;
      forecast.placed(id, first, {static_cast<std::uint32_t>(1 + random.below(3)), 0}, begin);
      ends.push_back(begin + 5.0);
    }
    const double from = static_cast<double>(random.below(100)) / 10.0;
    const auto most = static_cast<std::uint32_t>(random.below(10));
    const double found = forecast.time_until_sequences(from, most);
    CHECK(forecast.all_at(found).sequences <= most);
    if (found > from) {
      CHECK(forecast.all_at(from).sequences > most);
      for (const double end : ends)
        if (end > from && end < found) CHECK(forecast.all_at(end).sequences > most);
    }
  }
}
