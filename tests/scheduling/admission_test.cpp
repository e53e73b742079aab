#include "scheduling/admission.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace yolk::scheduling;
using outcome = admission_decision::outcome;

namespace {
constexpr admission_limits limits{.max_running = 2, .max_waiting = 3};
constexpr std::uint32_t largest = std::numeric_limits<std::uint32_t>::max();
}  // namespace

TEST_CASE("requests run while there is room, then wait, then are refused") {
  CHECK(admit(limits, {.running = 0, .waiting = 0}).what == outcome::run);
  CHECK(admit(limits, {.running = 1, .waiting = 0}).what == outcome::run);
  CHECK(admit(limits, {.running = 2, .waiting = 0}).what == outcome::wait);
  CHECK(admit(limits, {.running = 2, .waiting = 2}).what == outcome::wait);
  CHECK(admit(limits, {.running = 2, .waiting = 3}).what == outcome::refuse);
  CHECK(admit(limits, {.running = largest, .waiting = largest}).what == outcome::refuse);
}

TEST_CASE("limits of nothing refuse everything, and a queue of nothing never lets wait") {
  CHECK(admit({.max_running = 0, .max_waiting = 0}, {}).what == outcome::refuse);
  CHECK(admit({.max_running = 1, .max_waiting = 0}, {.running = 1}).what == outcome::refuse);
  CHECK(admit({.max_running = 0, .max_waiting = 1}, {}).what == outcome::wait);
}

TEST_CASE("who is refused is told when the queue will have drained") {
  const auto retry = [](std::uint32_t waiting, double seconds_per_request) {
    const auto decision = admit({.max_running = 0, .max_waiting = 0},
                                {.waiting = waiting, .seconds_per_request = seconds_per_request});
    REQUIRE(decision.what == outcome::refuse);
    return decision.retry_after_seconds;
  };
  CHECK(retry(3, 2.0) == 8);
  CHECK(retry(3, 0.3) == 2);  // rounded up
  CHECK(retry(3, 0.0) == 1);  // not known
  CHECK(retry(0, 0.001) == 1);
  CHECK(retry(largest, 1e300) == max_retry_after_seconds);
  CHECK(retry(largest, std::numeric_limits<double>::infinity()) == max_retry_after_seconds);
  CHECK(retry(1, std::numeric_limits<double>::quiet_NaN()) == 1);
  CHECK(retry(1, -5.0) == 1);
}

TEST_CASE("who is not refused is not told to come back") {
  CHECK(admit(limits, {.running = 0, .seconds_per_request = 9.0}).retry_after_seconds == 0);
  CHECK(admit(limits, {.running = 2, .seconds_per_request = 9.0}).retry_after_seconds == 0);
}
