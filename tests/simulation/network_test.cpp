#include "simulation/network.hpp"

#include <doctest/doctest.h>

using namespace yolk;
using namespace yolk::simulation;
using namespace std::chrono_literals;

namespace {

struct world {
  explicit world(std::vector<node_link> nodes) : links(events, clock, std::move(nodes)) {}

  /// Runs everything; the second at which each flow arrived is what `arrival` noted.
  void run() {
    while (const auto next = events.next()) {
      clock.set(*next);
      events.run_first();
    }
  }
  std::function<void()> note(double& seconds) {
    return
        [this, &seconds] { seconds = std::chrono::duration<double>(clock.now().time_since_epoch()).count(); };
  }

  event_queue events;
  virtual_clock clock{core::time_point{}};
  network links;
};

constexpr node_link plain{.out_bytes_per_second = 100, .in_bytes_per_second = 100};

}  // namespace

TEST_CASE("a flow alone has its link, flows together share it") {
  world one({plain, plain, plain});
  double alone = 0;
  one.links.start(0, 1, 200, one.note(alone));
  one.run();
  CHECK(alone == doctest::Approx(2.0));

  world two({plain, plain, plain});
  double first = 0, second = 0;
  two.links.start(0, 1, 100, two.note(first));   // shares the way out until second 2
  two.links.start(0, 2, 300, two.note(second));  // then has it alone
  two.run();
  CHECK(first == doctest::Approx(2.0));
  CHECK(second == doctest::Approx(4.0));
}

TEST_CASE("the receiver's way in is shared, too, and the narrower end counts") {
  world incast({plain, plain, plain});
  double first = 0, second = 0;
  incast.links.start(0, 2, 100, incast.note(first));
  incast.links.start(1, 2, 100, incast.note(second));
  incast.run();
  CHECK(first == doctest::Approx(2.0));
  CHECK(second == doctest::Approx(2.0));

  world thin({plain, {.out_bytes_per_second = 100, .in_bytes_per_second = 10}});
  double slow = 0;
  thin.links.start(0, 1, 100, thin.note(slow));
  thin.run();
  CHECK(slow == doctest::Approx(10.0));
}

TEST_CASE("a cancelled flow never arrives and gives its share back") {
  world both({plain, plain, plain});
  double gone = 0, kept = 0;
  const auto flow = both.links.start(0, 1, 1000, both.note(gone));
  both.links.start(0, 2, 150, both.note(kept));
  both.events.at(core::time_point(1s), [&] { both.links.cancel(flow); });
  both.run();
  CHECK(gone == 0);
  CHECK(kept == doctest::Approx(2.0));  // 50 in the shared second, then 100 in one more
  CHECK(both.links.sent_bytes() == 1150);
}

TEST_CASE("within a node nothing is shared, and a setup comes before every transfer") {
  world local({{.local_bytes_per_second = 50, .setup = 1s}, {}});
  double first = 0, second = 0, other = 0;
  local.links.start(0, 0, 100, local.note(first));
  local.links.start(0, 0, 100, local.note(second));
  local.links.start(0, 1, 100, local.note(other));  // unlimited
  local.run();
  CHECK(first == doctest::Approx(3.0));
  CHECK(second == doctest::Approx(3.0));
  CHECK(other == doctest::Approx(1.0));
  CHECK(local.links.local_bytes() == 200);
}
