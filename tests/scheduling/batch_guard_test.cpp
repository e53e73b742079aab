#include "scheduling/batch_guard.hpp"

#include <doctest/doctest.h>

using namespace yolk::scheduling;

TEST_CASE("a sequence of 50 ms beside one of 30 ms runs exactly three steps of five") {
  std::vector<credited_sequence> both{{.tpot_seconds = 0.030}, {.tpot_seconds = 0.050}};
  int fast = 0;
  int slow = 0;
  for (int step = 1; step <= 1000; ++step) {
    for (const auto index : spend_credits(both)) ++(index == 0 ? fast : slow);
    CHECK(fast == step);
    if (step % 5 == 0) CHECK(slow == step / 5 * 3);
  }
}

TEST_CASE("ten of 30 ms and ten of 50 ms are a batch of sixteen") {
  batch_guard guard({});
  CHECK(guard.virtual_batch_size() == 0.0);
  for (int i = 0; i < 10; ++i) guard.add(0.030);
  for (int i = 0; i < 10; ++i) guard.add(0.050);
  CHECK(guard.virtual_batch_size() == doctest::Approx(16.0));
  for (int i = 0; i < 10; ++i) guard.remove(0.030);
  CHECK(guard.virtual_batch_size() == doctest::Approx(10.0));  // the strictest are now those of 50 ms
}

TEST_CASE("a sequence is admitted while the step with it meets the strictest target") {
  // 1 ms a sequence and 5 ms besides: at 30 ms, 24 sequences and a bit.
  batch_guard guard({.step = {.beta = 1e-3, .delta = 5e-3}});
  int admitted = 0;
  while (guard.admits({.tpot_seconds = 0.030})) {
    guard.add(0.030);
    ++admitted;
  }
  CHECK(admitted == 24);
  CHECK_FALSE(guard.admits({.tpot_seconds = 0.030}));
  CHECK(guard.admits({.tpot_seconds = 0.050}));  // three fifths of one still fit
  for (int i = 0; i < 10; ++i) guard.remove(0.030);
  int relaxed = 0;
  while (guard.admits({.tpot_seconds = 0.050})) {
    guard.add(0.050);
    ++relaxed;
  }
  CHECK(relaxed == 17);  // 14 + 17 * 0.6 = 24.2
}

TEST_CASE("a stricter target than those of the batch is judged by itself") {
  batch_guard guard({.step = {.beta = 1e-3, .delta = 5e-3}});
  for (int i = 0; i < 30; ++i) guard.add(0.050);
  CHECK_FALSE(guard.admits({.tpot_seconds = 0.005}));
  CHECK(guard.admits({.tpot_seconds = 0.030}));  // 30 * 0.6 + 1 = 19
}

TEST_CASE("long contexts count as the step's model says") {
  const batch_guard guard({.step = {.alpha = 1e-6, .gamma = 1e-6}});
  CHECK(guard.admits({.tpot_seconds = 0.030, .mean_context_tokens = 14'000}));
  CHECK_FALSE(guard.admits({.tpot_seconds = 0.030, .mean_context_tokens = 15'000}));
  CHECK_FALSE(
      guard.admits({.tpot_seconds = 0.030, .expected_output_tokens = 2000, .mean_context_tokens = 14'000}));
  CHECK(step_seconds({1, 2, 3, 4}, 5, 7) == 1 * 5 * 7 + 2 * 5 + 3 * 7 + 4);
}

TEST_CASE("nobody runs in an empty batch") {
  CHECK(spend_credits({}).empty());
}
