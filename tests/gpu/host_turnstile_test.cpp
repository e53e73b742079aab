#include "gpu/host/host_turnstile.hpp"

#include <atomic>
#include <thread>

#include <doctest/doctest.h>

#include "tests/gpu/host_fixture.hpp"

using namespace yolk;
using namespace yolk::gpu;
using namespace yolk::gpu::host;
using namespace std::chrono_literals;

namespace {
/// Times since some start, turned by hand.
core::time_point at(std::chrono::milliseconds since) {
  return core::time_point{} + since;
}
}  // namespace

TEST_CASE("a free turn is taken at once, and within a class first come is first served") {
  turn_order order(1.0);
  const auto a = order.request(step_class::decode, at(0ms));
  CHECK(order.holder() == a);
  const auto b = order.request(step_class::decode, at(1ms));
  const auto c = order.request(step_class::decode, at(2ms));
  order.release(a, at(3ms));
  CHECK(order.holder() == b);
  order.release(b, at(4ms));
  CHECK(order.holder() == c);
  order.release(c, at(5ms));
  CHECK(!order.holder());
}

TEST_CASE(
    "a decode step that waits takes over at the prefill's next pause, and the prefill goes on after it") {
  turn_order order(1.0);
  const auto prefill = order.request(step_class::prefill, at(0ms));
  CHECK(!order.should_lend(prefill, at(5ms)));
  const auto decode = order.request(step_class::decode, at(10ms));
  CHECK(order.holder() == prefill);
  REQUIRE(order.should_lend(prefill, at(12ms)));
  order.lend(prefill, at(12ms));
  CHECK(order.holder() == decode);
  order.release(decode, at(42ms));
  CHECK(order.holder() == prefill);
}

TEST_CASE("after a decode step the prefill keeps the turn for its share of that step's duration") {
  for (const double share : {0.0, 0.5, 1.0, 2.0}) {
    CAPTURE(share);
    turn_order order(share);
    const auto prefill = order.request(step_class::prefill, at(0ms));
    auto decode = order.request(step_class::decode, at(1ms));
    order.lend(prefill, at(1ms));
    order.release(decode, at(31ms));  // it took 30 ms
    decode = order.request(step_class::decode, at(31ms));
    CHECK(order.holder() == prefill);
    const auto due = 31ms + std::chrono::milliseconds(static_cast<int>(30 * share));
    if (share > 0.0) CHECK(!order.should_lend(prefill, at(due - 1ms)));
    CHECK(order.should_lend(prefill, at(due)));
  }
}

TEST_CASE(
    "back-to-back decode steps never starve a prefill, and a prefill delays each by its share and one "
    "piece") {
  turn_order order(1.0);
  const auto piece = 3ms, step = 20ms;
  auto now = at(0ms);
  const auto prefill = order.request(step_class::prefill, now);
  core::duration prefill_had{0}, longest_gap{0};
  for (int i = 0; i < 50; ++i) {
    const auto decode = order.request(step_class::decode, now);
    const auto asked = now;
    while (order.holder() != decode) {
      now += piece;  // the prefill runs a piece, then pauses
      prefill_had += piece;
      if (order.should_lend(prefill, now)) order.lend(prefill, now);
    }
    longest_gap = std::max(longest_gap, now - asked);
    now += step;
    order.release(decode, now);
  }
  CHECK(longest_gap <= step + piece);
  CHECK(prefill_had >= 49 * step);
}

TEST_CASE("a prefill that was set aside goes before one not yet begun, and both advance beside decode") {
  turn_order order(1.0);
  const auto first = order.request(step_class::prefill, at(0ms));
  const auto second = order.request(step_class::prefill, at(1ms));
  const auto decode = order.request(step_class::decode, at(2ms));
  order.lend(first, at(3ms));
  CHECK(order.holder() == decode);
  order.release(decode, at(13ms));
  CHECK(order.holder() == first);
  const auto next = order.request(step_class::decode, at(13ms));
  // The first ends with 6 of 10 ms of the share unused: the second prefill step has the rest.
  order.release(first, at(17ms));
  CHECK(order.holder() == second);
  CHECK(!order.should_lend(second, at(22ms)));
  CHECK(order.should_lend(second, at(23ms)));
  order.lend(second, at(23ms));
  CHECK(order.holder() == next);
}

TEST_CASE("a share that nobody waited for is not kept for later") {
  turn_order order(1.0);
  const auto decode = order.request(step_class::decode, at(0ms));
  order.release(decode, at(100ms));
  const auto prefill = order.request(step_class::prefill, at(101ms));
  order.request(step_class::decode, at(102ms));
  CHECK(order.should_lend(prefill, at(102ms)));
}

TEST_CASE("a decode step never lends its turn") {
  turn_order order(1.0);
  const auto decode = order.request(step_class::decode, at(0ms));
  order.request(step_class::prefill, at(1ms));
  order.request(step_class::decode, at(1ms));
  CHECK(!order.should_lend(decode, at(1000ms)));
}

TEST_CASE(
    "a decode device gets whole steps through while a prefill device's step runs, and bits stay the same") {
  const auto platform = *make_host_platform({.thread_count = 2, .prefill_share = 0.0});
  core::random_source random(9);
  const std::size_t inputs = 256, outputs = 192, rows = 64;
  const auto w = reference::random_bfloats(random, outputs * inputs);
  const auto x = reference::random_bfloats(random, rows * inputs);
  const matrix_view view = {.data = w.data(), .type = dtype::f32, .rows = outputs, .columns = inputs};
  const auto weights = *platform->pack({&view, 1});
  const auto multiply = [&](device& on, std::size_t count, std::vector<float>& y) {
    on.gemm({.x = x.data(),
             .x_stride = inputs,
             .weights = weights.get(),
             .y = y.data(),
             .y_stride = outputs,
             .row_count = count});
  };
  std::atomic<int> decoded = 0;
  std::thread decoder([&] {
    const auto on = *platform->create_device();
    for (int step = 0; step < 20; ++step) {
      std::vector<float> y(outputs);
      on->begin_step(step_class::decode);
      multiply(*on, 1, y);
      on->end_step();
      ++decoded;
    }
  });
  const auto on = *platform->create_device();
  std::vector<float> first(rows * outputs), again(rows * outputs);
  // One prefill step that does not end before all decode steps have: it ends at all only because it lends.
  on->begin_step(step_class::prefill);
  multiply(*on, rows, first);
  bool same = true;
  do {
    multiply(*on, rows, again);
    same = same && same_bits(first.data(), again.data(), first.size());
  } while (decoded < 20);
  on->end_step();
  decoder.join();
  CHECK(same);
}
