#include "actors/decode_worker/decode_worker.hpp"

#include <caf/all.hpp>

#include "actors/decode_worker/decode_state.hpp"

namespace yolk::actors {

namespace {

constexpr auto tick_interval = std::chrono::milliseconds(250);

struct holder {
  std::unique_ptr<decode_state> state;
  static inline const char* name = "decode_worker";
};

decode_internal_actor::behavior_type run(decode_internal_actor::stateful_pointer<holder> self,
                                         const decode_options& options,
                                         const std::shared_ptr<worker_environment>& environment) {
  self->state.state = std::make_unique<decode_state>(self, options, environment);
  auto* state = self->state.state.get();
  self->set_down_handler([state](const caf::down_msg& down) { state->peer_down(down.source, down.reason); });
  self->delayed_send(self, tick_interval, messages::tick_atom::value);
  return {
      [state](const messages::status_request& request) { return state->status(request.read()->getSerial()); },
      [state](const messages::reserve_blocks& ask, const messages::generate_request& request,
              const messages::session_actor& session) { return state->reserve(ask, request, session); },
      [state](const messages::keep_reservation& kept) { state->keep(kept.read()->getHeader().getLegId()); },
      [state](const messages::release_reservation& released) {
        state->release(released.read()->getHeader().getLegId());
      },
      [state](const messages::kv_handoff& handoff, const messages::session_actor& session,
              const messages::cache_shard_actor& shard) { state->take_over(handoff, session, shard); },
      [state](const messages::drain_worker&) { state->drain(); },
      [state](const messages::cancel_leg& cancel) { state->cancel(cancel.read()->getHeader().getLegId()); },
      [state](const messages::peers_changed&, const messages::conductor_reports& conductor) {
        state->set_conductor(conductor);
      },
      [state](const decode_step_done& done) { state->step_done(done); },
      [state](const decode_handoff_checked& checked) { state->handoff_checked(checked); },
      [state](const offer_ready& ready) { state->send_offer(ready.number); },
      [self, state](messages::tick_atom) {
        state->tick();
        self->delayed_send(self, tick_interval, messages::tick_atom::value);
      },
  };
}

}  // namespace

messages::decode_worker_actor spawn_decode_worker(caf::actor_system& system, const decode_options& options,
                                                  std::shared_ptr<worker_environment> environment) {
  return system.spawn(run, options, std::move(environment));
}

}  // namespace yolk::actors
