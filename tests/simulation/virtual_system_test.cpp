#include "simulation/virtual_system.hpp"

#include <doctest/doctest.h>

#include <caf/all.hpp>
#include <vector>

using namespace yolk;
using namespace yolk::simulation;
using namespace std::chrono_literals;

namespace {

using ping_atom = caf::atom_constant<caf::atom("ping")>;

double seconds_in(const virtual_system& system) {
  return std::chrono::duration<double>(system.clock()->now() - virtual_system::start()).count();
}

}  // namespace

TEST_CASE("delayed messages and events happen in order of virtual time, without waiting") {
  virtual_system system;
  std::vector<double> times;
  const auto note = [&] { times.push_back(seconds_in(system)); };
  auto actor = system.actors().spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->delayed_send(self, 3000s, ping_atom::value);
    return {[&](ping_atom) { note(); }};
  });
  system.events().at(virtual_system::start() + 5000s, [&] {
    note();
    caf::anon_send(actor, ping_atom::value);
  });
  system.events().at(virtual_system::start() + 1000s, note);
  CHECK_FALSE(system.run_until([] { return false; }));
  CHECK(times == std::vector<double>{1000, 3000, 5000, 5000});
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  system.run_messages();
}

TEST_CASE("a request's timeout comes at its virtual time") {
  virtual_system system;
  double answered = 0;
  auto silent = system.actors().spawn([](caf::event_based_actor* self) -> caf::behavior {
    return {[self](ping_atom) -> caf::result<int> { return self->make_response_promise<int>(); }};
  });
  system.actors().spawn([&](caf::event_based_actor* self) {
    self->request(silent, 120s, ping_atom::value)
        .then([](int) {}, [&](const caf::error&) { answered = seconds_in(system); });
  });
  CHECK(system.run_until([&] { return answered > 0; }));
  CHECK(answered == 120.0);
  caf::anon_send_exit(silent, caf::exit_reason::user_shutdown);
  system.run_messages();
}

TEST_CASE("a run ends when it is done, or at its end") {
  virtual_system system;
  for (int i = 1; i <= 10; ++i) system.events().at(virtual_system::start() + i * 1s, [] {});
  CHECK(system.run_until([&] { return seconds_in(system) >= 4; }));
  CHECK(seconds_in(system) == 4.0);
  CHECK_FALSE(system.run_until([] { return false; }, virtual_system::start() + 7s));
  CHECK(seconds_in(system) == 7.0);
}
