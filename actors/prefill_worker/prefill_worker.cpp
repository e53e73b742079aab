#include "actors/prefill_worker/prefill_worker.hpp"

#include <caf/all.hpp>

#include "actors/prefill_worker/prefill_state.hpp"

namespace yolk::actors {

namespace {

constexpr auto tick_interval = std::chrono::milliseconds(250);

struct holder {
  std::unique_ptr<prefill_state> state;
  static inline const char* name = "prefill_worker";
};

prefill_internal_actor::behavior_type run(prefill_internal_actor::stateful_pointer<holder> self,
                                          const prefill_options& options,
                                          const std::shared_ptr<worker_environment>& environment) {
  self->state.state = std::make_unique<prefill_state>(self, options, environment);
  auto* state = self->state.state.get();
  self->set_down_handler([state](const caf::down_msg& down) { state->peer_down(down.source); });
  self->delayed_send(self, tick_interval, messages::tick_atom::value);
  return {
      [state](const messages::status_request& request) { return state->status(request.read()->getSerial()); },
      [state](const messages::prefill_order& order, const messages::generate_request& request,
              const messages::session_actor& session, const messages::decode_worker_actor& decode,
              const messages::cache_shard_actor& source, const messages::cache_shard_actor& keeper) {
        state->take_order(order, request, session, decode, source, keeper);
      },
      [state](const messages::cancel_leg& cancel) { state->cancel(cancel.read()->getHeader().getLegId()); },
      [state](const messages::snapshot_request&) { return state->snapshot(); },
      [state](const messages::peers_changed&, const messages::conductor_reports& conductor) {
        state->set_conductor(conductor);
      },
      [state](const prefill_step_done& done) { state->step_done(done); },
      [state](const prefill_push_done& done) { state->push_done(done); },
      [state](const prefill_pull_done& done) { state->pull_done(done); },
      [state](const offer_ready& ready) { state->send_offer(ready.number); },
      [self, state](messages::tick_atom) {
        state->tick();
        self->delayed_send(self, tick_interval, messages::tick_atom::value);
      },
  };
}

}  // namespace

messages::prefill_worker_actor spawn_prefill_worker(caf::actor_system& system, const prefill_options& options,
                                                    std::shared_ptr<worker_environment> environment) {
  return system.spawn(run, options, std::move(environment));
}

}  // namespace yolk::actors
