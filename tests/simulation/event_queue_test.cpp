#include "simulation/event_queue.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace yolk;
using namespace std::chrono_literals;

TEST_CASE("events happen in order of time, and at one time in the order of planning") {
  simulation::event_queue events;
  std::vector<int> order;
  const core::time_point start{};
  events.at(start + 2s, [&] { order.push_back(3); });
  events.at(start + 1s, [&] {
    order.push_back(1);
    events.at(start + 1s, [&] { order.push_back(2); });
  });
  events.at(start + 2s, [&] { order.push_back(4); });
  while (events.next()) events.run_first();
  CHECK(order == std::vector<int>{1, 2, 3, 4});
  CHECK(events.run_count() == 4);
}
