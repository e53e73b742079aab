#pragma once

#include <caf/typed_event_based_actor.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/http_gateway/answer_writer.hpp"
#include "actors/http_gateway/generation.hpp"
#include "actors/http_gateway/generation_plan.hpp"
#include "actors/http_gateway/http_gateway.hpp"
#include "actors/http_gateway/session_context.hpp"
#include "messages/interfaces.hpp"

namespace yolk::actors {

/// Whom a session works with. Null handles: not there (yet, or any more).
struct session_peers {
  messages::admission_controller_actor admission;
  messages::conductor_actor conductor;
};

struct session_origin {
  http::endpoint kind = http::endpoint::chat;
  std::string tenant;
  std::uint64_t drawn_seed = 0;
  http_output_sink broker;
  session_peers peers;
};

using generation_session_actor = messages::session_actor::extend<
    caf::reacts_to<messages::http_request>, caf::reacts_to<messages::http_gone>,
    caf::reacts_to<messages::peers_changed, messages::admission_controller_actor, messages::conductor_actor>,
    caf::reacts_to<messages::tick_atom>, caf::reacts_to<gateway_shutdown_atom>>;

/// Owns one client request from its body to its last byte: plans it, has its legs worked on, tells the client
/// what came, tries again what failed, and at its end, whatever that is, tells admission and conductor so.
/// Spawned by the broker; ends with the answer, with the client or with the broker. Runs on the scheduler's
/// threads.
class generation_session final : public generation_session_actor::base {
 public:
  generation_session(caf::actor_config& config, std::shared_ptr<const session_context> context,
                     session_origin origin);

  const char* name() const override { return "generation_session"; }
  void on_exit() override;

 protected:
  behavior_type make_behavior() override;

 private:
  using outcome = metrics::outcome;

  void receive(const messages::http_request& request);
  void plan_elsewhere(const messages::http_request& request);
  void planned(plan_result result);
  void place_legs();
  bool place(generation::leg& which);
  void receive(const messages::token_batch& batch);
  void record(const generation::arrival& what, core::time_point time);
  void receive(const messages::leg_failed& failure);
  void act_on(const generation::verdict& what, std::string_view reason);
  void change_peers(session_peers fresh);
  void peer_down(const caf::actor_addr& who);
  void tick();
  void look_after_legs(core::time_point time);
  void shut_down();

  void tell_choice(choice& which);
  void finish_if_complete();
  void give_up(const http::api_error& error);
  void end(outcome how);
  void settle_legs();
  void tell_conductor(const generation::leg& which, bool cancel);
  void tell_admission(const generation::leg& which, bool cancel);
  void output(std::string_view bytes, bool last = false);
  [[nodiscard]] core::time_point now() const { return context_->environment.clock->now(); }
  [[nodiscard]] answer_options answer_options_of(const generation_plan& plan) const;

  std::shared_ptr<const session_context> context_;
  session_origin origin_;
  std::uint64_t request_;
  core::time_point arrived_;
  std::uint64_t connection_ = 0;
  bool keep_alive_ = true;
  bool chunked_ = true;
  heavy_job_ptr job_;
  std::optional<generation> generation_;
  std::optional<answer_writer> writer_;
  std::vector<generation::leg> owed_to_admission_;  ///< legs whose end admission was not told yet
  std::vector<core::time_point> last_token_;        ///< per choice
  core::time_point last_output_{};
  std::optional<core::time_point> peers_missing_since_;
  bool first_token_seen_ = false;
  bool ended_ = false;
};

}  // namespace yolk::actors
