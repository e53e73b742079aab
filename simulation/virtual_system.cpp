#include "simulation/virtual_system.hpp"

#include <algorithm>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include "core/invariant.hpp"

namespace yolk::simulation {

namespace {

class testing_config : public caf::actor_system_config {
 public:
  testing_config() { set("scheduler.policy", caf::atom("testing")); }
};

}  // namespace

struct virtual_system::caf_side {
  testing_config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& scheduler =
      dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
};

virtual_system::virtual_system()
    : clock_(std::make_shared<virtual_clock>(start())), caf_(std::make_unique<caf_side>()) {
  caf_->scheduler.clock().current_time = start();
}

virtual_system::~virtual_system() {
  // What is planned holds on to actors, which the system must outlive.
  events_ = event_queue();
}

caf::actor_system& virtual_system::actors() {
  return caf_->system;
}

void virtual_system::run_messages() {
  while (caf_->scheduler.has_job()) {
    caf_->scheduler.run_once();
    ++message_count_;
  }
}

bool virtual_system::run_until(const std::function<bool()>& done, core::time_point end) {
  auto& timeouts = caf_->scheduler.clock();
  for (;;) {
    run_messages();
    const auto now = clock_->now();
    const auto event = events_.next();
    if (event && *event <= now) {
      events_.run_first();
      continue;
    }
    if (done()) return true;
    auto next = event.value_or(core::time_point::max());
    if (timeouts.has_pending_timeout()) next = std::min(next, timeouts.schedule().begin()->first);
    if (next == core::time_point::max() || next > end) return false;
    clock_->set(std::max(next, now));
    timeouts.advance_time(clock_->now() - timeouts.current_time);
  }
}

}  // namespace yolk::simulation
