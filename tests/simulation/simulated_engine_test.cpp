#include "simulation/simulated_engine.hpp"

#include <doctest/doctest.h>

#include <optional>

using namespace yolk;
using namespace yolk::simulation;
using namespace std::chrono_literals;

namespace {

using outcome = std::optional<transport::result<transport::transfer_report>>;

struct world {
  world() {
    for (std::uint32_t node = 0; node < 2; ++node)
      engines.push_back(make_simulated_engine(places, {.node = node,
                                                       .owner = {10 + node},
                                                       .region_bytes = 1000,
                                                       .bytes_per_byte = 10,
                                                       .totals = &totals}));
  }
  void run(core::time_point end = core::time_point::max()) {
    while (events.next() && *events.next() <= end) {
      clock.set(*events.next());
      events.run_first();
    }
  }
  static transport::transfer_engine::completion note(outcome& target) {
    return [&target](const transport::result<transport::transfer_report>& result) {
      CHECK_FALSE(target.has_value());
      target = result;
    };
  }

  event_queue events;
  virtual_clock clock{core::time_point{}};
  network links{events,
                clock,
                {{.out_bytes_per_second = 1000, .in_bytes_per_second = 1000},
                 {.out_bytes_per_second = 1000, .in_bytes_per_second = 1000}}};
  fabric places{events, clock, links};
  transport::engine_counters totals;
  std::vector<std::unique_ptr<transport::transfer_engine>> engines;
};

}  // namespace

TEST_CASE("a transfer takes its real bytes' time and counts them, both ways") {
  world w;
  outcome put, get;
  w.engines[0]->put(w.engines[1]->descriptor(), {{0, 100, 50}, {500, 0, 50}}, 10s, world::note(put));
  w.run();
  REQUIRE(put.has_value());
  CHECK(put->value().bytes == 1000);
  CHECK(put->value().elapsed == 1s);
  w.engines[0]->get(w.engines[1]->descriptor(), {{0, 0, 100}}, 10s, world::note(get));
  w.run();
  CHECK(get.has_value());
  CHECK(w.engines[0]->counters().put_bytes == 1000);
  CHECK(w.totals.get_bytes == 1000);
  CHECK(w.engines[0]->counters().queued == 0);
}

TEST_CASE("a transfer beyond a region, or to nobody, fails and never in the caller's call") {
  world w;
  outcome beyond, nobody;
  w.engines[0]->put(w.engines[1]->descriptor(), {{0, 990, 20}}, 10s, world::note(beyond));
  auto unknown = w.engines[1]->descriptor();
  unknown.owner = {99};
  w.engines[0]->put(unknown, {{0, 0, 20}}, 10s, world::note(nobody));
  CHECK_FALSE(beyond.has_value());
  w.run();
  CHECK(beyond->error().code == transport::errc::invalid_range);
  CHECK(nobody->error().code == transport::errc::peer_unreachable);
  CHECK(w.totals.failures == 2);
}

TEST_CASE("a deadline, a forgotten peer and an engine's end each complete what is open, once") {
  world w;
  outcome late, forgotten, stopped;
  w.engines[0]->put(w.engines[1]->descriptor(), {{0, 0, 1000}}, 5s, world::note(late));
  w.run(core::time_point(7s));
  CHECK(late->error().code == transport::errc::deadline_exceeded);
  w.engines[0]->put(w.engines[1]->descriptor(), {{0, 0, 1000}}, 50s, world::note(forgotten));
  w.engines[0]->forget(w.engines[1]->descriptor());
  CHECK(forgotten->error().code == transport::errc::peer_unreachable);
  w.engines[0]->put(w.engines[1]->descriptor(), {{0, 0, 1000}}, 50s, world::note(stopped));
  w.engines[0].reset();
  CHECK(stopped->error().code == transport::errc::stopped);
  w.run();
}

TEST_CASE("the region reads as zeros") {
  world w;
  for (const auto byte : w.engines[0]->region()) CHECK(byte == std::byte{0});
}
