#include "actors/admission_controller/admission_controller.hpp"

#include <algorithm>
#include <caf/all.hpp>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/conversions.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

namespace {

constexpr double observation_weight = 0.1;

class admission_state {
 public:
  static inline const char* name = "admission_controller";

  void start(messages::admission_controller_actor::pointer self, const scheduling::admission_limits& limits,
             const admission_environment& environment) {
    self_ = self;
    limits_ = limits;
    environment_ = environment;
  }

  void take(const messages::generate_request& request, const messages::session_actor& session) {
    const auto header = header_of(request.read()->getHeader());
    const auto decision = scheduling::admit(limits_, load());
    if (decision.what == scheduling::admission_decision::outcome::refuse) {
      self_->send(session,
                  make_leg_failed(header, environment_.incarnation, schema::LegFailed::Reason::REFUSED,
                                  "The server is at its limit of " + std::to_string(limits_.max_running) +
                                      " prompts in work and " + std::to_string(limits_.max_waiting) +
                                      " waiting. Please try again later.",
                                  decision.retry_after_seconds));
      return;
    }
    self_->monitor(session);
    if (decision.what == scheduling::admission_decision::outcome::run && conductor_) {
      run({header, request, session});
    } else {
      waiting_.push_back({header, request, session});
    }
    record();
  }

  void ended(std::uint64_t leg) {
    if (running_.erase(leg) != 0) {
      const auto now = environment_.clock->now();
      if (last_ending_) {
        const double interval = std::chrono::duration<double>(now - *last_ending_).count();
        seconds_per_request_ +=
            (seconds_per_request_ == 0 ? 1.0 : observation_weight) * (interval - seconds_per_request_);
      }
      last_ending_ = now;
    }
    std::erase_if(waiting_, [leg](const entry& waiting) { return waiting.header.leg == leg; });
    admit_waiting();
  }

  void session_down(const caf::actor_addr& who) {
    std::erase_if(running_, [&](const auto& running) { return running.second.session.address() == who; });
    std::erase_if(waiting_, [&](const entry& waiting) { return waiting.session.address() == who; });
    admit_waiting();
  }

  void set_conductor(const messages::conductor_actor& conductor) {
    conductor_ = conductor;
    admit_waiting();
  }

  [[nodiscard]] messages::actor_status status(std::uint64_t serial) const {
    return messages::actor_status::build([&](schema::ActorStatus::Builder builder) {
      builder.setSerial(serial);
      builder.setKind(schema::ActorKind::ADMISSION_CONTROLLER);
      builder.setIncarnation(environment_.incarnation.value);
      builder.setRunning(static_cast<std::uint32_t>(running_.size()));
      builder.setWaiting(static_cast<std::uint32_t>(waiting_.size()));
    });
  }

 private:
  struct entry {
    leg_header header;
    messages::generate_request request;
    messages::session_actor session;
  };

  [[nodiscard]] scheduling::admission_load load() const {
    return {.running = static_cast<std::uint32_t>(running_.size()),
            .waiting = static_cast<std::uint32_t>(waiting_.size()),
            .seconds_per_request = seconds_per_request_};
  }

  void run(entry admitted) {
    self_->send(conductor_, admitted.request, admitted.session);
    const auto leg = admitted.header.leg;
    running_.emplace(leg, std::move(admitted));
  }

  void admit_waiting() {
    while (!waiting_.empty() && running_.size() < limits_.max_running && conductor_) {
      run(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    record();
  }

  void record() {
    environment_.recorder->running_requests(static_cast<double>(running_.size()));
    environment_.recorder->waiting_requests(static_cast<double>(waiting_.size()));
  }

  messages::admission_controller_actor::pointer self_ = nullptr;
  scheduling::admission_limits limits_;
  admission_environment environment_;
  messages::conductor_actor conductor_;
  std::unordered_map<std::uint64_t, entry> running_;
  std::deque<entry> waiting_;
  std::optional<core::time_point> last_ending_;
  double seconds_per_request_ = 0.0;
};

messages::admission_controller_actor::behavior_type run_admission(
    messages::admission_controller_actor::stateful_pointer<admission_state> self,
    const scheduling::admission_limits& limits, const admission_environment& environment) {
  auto* state = &self->state;
  state->start(self, limits, environment);
  self->set_down_handler([state](const caf::down_msg& down) { state->session_down(down.source); });
  return {
      [state](const messages::status_request& request) { return state->status(request.read()->getSerial()); },
      [state](const messages::generate_request& request, const messages::session_actor& session) {
        state->take(request, session);
      },
      [state](const messages::leg_ended& ended) { state->ended(ended.read()->getHeader().getLegId()); },
      [state](const messages::peers_changed&, const messages::conductor_actor& conductor) {
        state->set_conductor(conductor);
      },
  };
}

}  // namespace

messages::admission_controller_actor spawn_admission_controller(caf::actor_system& system,
                                                                const scheduling::admission_limits& limits,
                                                                admission_environment environment) {
  return system.spawn(run_admission, limits, std::move(environment));
}

}  // namespace yolk::actors
