#include "actors/http_gateway/generation_session.hpp"

#include <algorithm>
#include <caf/all.hpp>
#include <chrono>
#include <cstdio>
#include <utility>

namespace yolk::actors {

namespace schema = messages::schema;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t heavy_body_bytes = std::size_t{256} << 10;
constexpr auto tick_interval = 1s;
constexpr auto keepalive_interval = 15s;
/// How long a request waits for a conductor or admission controller that is being restarted.
constexpr auto peers_timeout = 30s;
/// A leg whose conductor is gone hears from no one when its worker dies; silence of that length is taken for
/// it.
constexpr auto orphan_timeout = 10s;

const http::api_error internal_error{.status = 500,
                                     .message = "The server failed to process the request.",
                                     .type = "internal_error",
                                     .code = "internal_error"};

std::string reason_name(schema::LegFailed::Reason reason) {
  using enumerant = schema::LegFailed::Reason;
  switch (reason) {
    case enumerant::REFUSED:
      return "refused";
    case enumerant::WORKER_LOST:
      return "workerLost";
    case enumerant::PREEMPTED:
      return "preempted";
    case enumerant::TRANSFER_FAILED:
      return "transferFailed";
    case enumerant::UNAVAILABLE:
      return "unavailable";
    case enumerant::INTERNAL:
      break;
  }
  return "internal";
}

metrics::outcome outcome_of(int status) {
  if (status == 429) return metrics::outcome::refused;
  return status >= 500 ? metrics::outcome::failed : metrics::outcome::invalid;
}

}  // namespace

generation_session::generation_session(caf::actor_config& config,
                                       std::shared_ptr<const session_context> context, session_origin origin)
    : generation_session_actor::base(config),
      context_(std::move(context)),
      origin_(std::move(origin)),
      request_(context_->next_number()),
      arrived_(now()),
      last_output_(arrived_) {}

generation_session::behavior_type generation_session::make_behavior() {
  monitor(origin_.broker);
  if (origin_.peers.admission) monitor(origin_.peers.admission);
  if (origin_.peers.conductor) monitor(origin_.peers.conductor);
  set_down_handler([this](caf::down_msg& down) { peer_down(down.source); });
  delayed_send(this, tick_interval, messages::tick_atom::value);
  return {[this](const messages::token_batch& batch) { receive(batch); },
          [this](const messages::leg_failed& failure) { receive(failure); },
          [this](const messages::http_request& request) { receive(request); },
          [this](const messages::http_gone&) { end(outcome::cancelled); },
          [this](const messages::peers_changed&, const messages::admission_controller_actor& admission,
                 const messages::conductor_actor& conductor) {
            change_peers({admission, conductor});
          },
          [this](messages::tick_atom) { tick(); },
          [this](gateway_shutdown_atom) { shut_down(); }};
}

// -- the request
// -------------------------------------------------------------------------------------------------

void generation_session::receive(const messages::http_request& request) {
  const auto view = request.read();
  connection_ = view->getConnection();
  keep_alive_ = view->getKeepAlive();
  chunked_ = view->getMinorVersion() > 0;
  if (view->getBody().size() > heavy_body_bytes) return plan_elsewhere(request);
  planned(plan_generation(*context_, {origin_.kind, origin_.tenant, origin_.drawn_seed},
                          {view->getBody().asChars().begin(), view->getBody().size()}));
}

void generation_session::plan_elsewhere(const messages::http_request& request) {
  job_ = std::make_shared<heavy_job>();
  auto result = std::make_shared<plan_result>();
  job_->work = [context = context_, origin = plan_origin{origin_.kind, origin_.tenant, origin_.drawn_seed},
                request, result] {
    const auto view = request.read();
    *result = plan_generation(*context, origin, {view->getBody().asChars().begin(), view->getBody().size()});
  };
  this->request(context_->heavy_lane, caf::infinite, job_)
      .then(
          [this, result](const heavy_job_ptr& job) {
            job->work = nullptr;  // the body is not needed any more
            job_.reset();
            if (ended_) return;
            if (job->done)
              planned(std::move(*result));
            else
              give_up(internal_error);
          },
          [this](const caf::error&) { give_up(internal_error); });
}

void generation_session::planned(plan_result result) {
  if (auto* error = std::get_if<http::api_error>(&result)) return give_up(*error);
  generation_.emplace(*context_, std::get<generation_plan>(std::move(result)), request_);
  writer_.emplace(answer_options_of(generation_->plan()));
  last_token_.resize(generation_->choices().size(), arrived_);
  place_legs();
}

answer_options generation_session::answer_options_of(const generation_plan& plan) const {
  const http::generation_request& request = plan.request;
  char number[17];
  std::snprintf(number, sizeof number, "%016llx", static_cast<unsigned long long>(request_));
  answer_options options{.headers = context_->extra_headers,
                         .stream = request.stream,
                         .include_usage = request.include_usage,
                         .continuous_usage = request.continuous_usage,
                         .logprobs = request.sampling.logprobs,
                         .keep_alive = keep_alive_,
                         .chunked = chunked_};
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  options.identity.kind = request.kind;
  options.identity.id = std::string(request.kind == http::endpoint::chat ? "chatcmpl-" : "cmpl-") + number;
  options.identity.created = std::chrono::duration_cast<std::chrono::seconds>(wall).count();
  options.identity.model = context_->environment.model->name;
  options.identity.system_fingerprint = context_->system_fingerprint;
  options.identity.stream_usage = request.include_usage;
  for (const auto& prompt : plan.prompts)
    options.echo.insert(options.echo.end(), request.n, request.echo ? prompt.echo : std::string());
  return options;
}

// -- legs
// --------------------------------------------------------------------------------------------------------

void generation_session::place_legs() {
  bool all = true;
  for (auto& [id, leg] : generation_->legs())
    if (leg.state == generation::leg_state::unplaced) all = place(leg) && all;
  if (all)
    peers_missing_since_.reset();
  else if (!peers_missing_since_)
    peers_missing_since_ = now();
}

bool generation_session::place(generation::leg& which) {
  if (!origin_.peers.conductor || !origin_.peers.admission) return false;
  const auto self = caf::actor_cast<messages::session_actor>(this);
  const messages::generate_request request = generation_->request_of(which);
  if (which.admitted)
    send(origin_.peers.conductor, request, self);
  else
    send(origin_.peers.admission, request, self);
  which.state = generation::leg_state::placed;
  which.heard = now();
  owed_to_admission_.push_back(which);
  return true;
}

void generation_session::receive(const messages::leg_failed& failure) {
  if (ended_ || !generation_) return;
  act_on(generation_->failed(failure), reason_name(failure.read()->getReason()));
}

void generation_session::act_on(const generation::verdict& what, std::string_view reason) {
  if (what.give_up) return give_up(*what.give_up);
  if (!what.resumed) return;
  context_->environment.recorder->leg_resumed(reason);
  place_legs();
  // A choice that had all its tokens needs no new leg: it ends here.
  for (choice& each : generation_->choices()) tell_choice(each);
  finish_if_complete();
}

void generation_session::change_peers(session_peers fresh) {
  if (ended_) return;
  const bool new_conductor = fresh.conductor != origin_.peers.conductor;
  const bool new_admission = fresh.admission != origin_.peers.admission;
  if (!new_conductor && !new_admission) return;
  origin_.peers = std::move(fresh);
  if (new_admission && origin_.peers.admission) monitor(origin_.peers.admission);
  if (new_conductor && origin_.peers.conductor) monitor(origin_.peers.conductor);
  if (!generation_) return;
  std::vector<std::uint64_t> lost;
  for (auto& [id, leg] : generation_->legs()) {
    if (leg.state != generation::leg_state::placed) continue;
    if (new_conductor) leg.orphaned = true;
    if (!leg.answered && (new_conductor || !leg.admitted)) lost.push_back(id);
  }
  // What the old ones had of it, they may have passed on: the new legs have new ids, so that nothing is told
  // twice.
  for (const std::uint64_t id : lost) {
    context_->environment.recorder->leg_resumed("peerLost");
    generation_->replace(id, !new_admission);
  }
  settle_legs();
  place_legs();
}

void generation_session::peer_down(const caf::actor_addr& who) {
  if (who == origin_.broker.address()) return end(outcome::cancelled);
  if (origin_.peers.conductor && who == origin_.peers.conductor.address())
    origin_.peers.conductor = messages::conductor_actor{};
  if (origin_.peers.admission && who == origin_.peers.admission.address())
    origin_.peers.admission = messages::admission_controller_actor{};
  if (!peers_missing_since_) peers_missing_since_ = now();
}

void generation_session::tick() {
  if (ended_) return;
  delayed_send(this, tick_interval, messages::tick_atom::value);
  if (!generation_) return;
  const core::time_point time = now();
  if (writer_->begun() && time - last_output_ >= keepalive_interval) output(writer_->keepalive());
  look_after_legs(time);
}

void generation_session::look_after_legs(core::time_point time) {
  if (!origin_.peers.conductor || !origin_.peers.admission) {
    const auto waits = [](const auto& entry) { return !entry.second.answered; };
    const auto& legs = generation_->legs();
    if (peers_missing_since_ && time - *peers_missing_since_ > peers_timeout &&
        std::any_of(legs.begin(), legs.end(), waits))
      give_up({.status = 503,
               .message = "The server is restarting a part of itself. Please try again later.",
               .type = "service_unavailable",
               .code = "unavailable",
               .retry_after_seconds = 5});
    return;
  }
  peers_missing_since_.reset();
  std::vector<std::uint64_t> silent;
  for (const auto& [id, leg] : generation_->legs())
    if (leg.state == generation::leg_state::placed && time - leg.heard > orphan_timeout &&
        (leg.orphaned || generation_->waits_for_tokens(leg)))
      silent.push_back(id);
  for (const std::uint64_t id : silent) {
    if (ended_) return;
    act_on(generation_->fault(id, "its worker fell silent"), "workerLost");
  }
}

// -- tokens
// ------------------------------------------------------------------------------------------------------

void generation_session::receive(const messages::token_batch& batch) {
  if (ended_ || !generation_) return;
  const core::time_point time = now();
  const auto arrival = generation_->accept(batch, time);
  if (!arrival) return;
  if (arrival->tokens_lost)
    return act_on(generation_->fault(header_of(batch.read()->getHeader()).leg, "tokens were lost"),
                  "transferFailed");
  record(*arrival, time);
  if (const std::string head = writer_->open(); !head.empty()) output(head);
  tell_choice(generation_->choices()[arrival->choice]);
  finish_if_complete();
}

void generation_session::record(const generation::arrival& what, core::time_point time) {
  metrics& recorder = *context_->environment.recorder;
  recorder.generated_tokens(what.token_count);
  if (what.first_of_prompt) recorder.prompt_tokens(what.prompt_tokens, what.cached_tokens);
  if (!first_token_seen_ && what.token_count > 0) {
    first_token_seen_ = true;
    recorder.time_to_first_token(time - arrived_);
  } else if (last_token_[what.choice] != arrived_) {
    // Tokens that came together shared the time since the last ones.
    for (std::size_t i = 0; i < what.token_count; ++i)
      recorder.inter_token_latency((time - last_token_[what.choice]) / static_cast<int>(what.token_count));
  }
  last_token_[what.choice] = time;
}

void generation_session::tell_choice(choice& which) {
  const auto delta = which.take_delta();
  if (!delta) return;
  // Counting is over all choices, so it is done only for those who want to see it each time.
  const bool counted = generation_->plan().request.continuous_usage;
  output(writer_->add(*delta, counted ? generation_->usage() : http::usage{}));
}

void generation_session::finish_if_complete() {
  settle_legs();
  if (!generation_->complete()) return;
  const bool by_length = std::any_of(generation_->choices().begin(), generation_->choices().end(),
                                     [](const choice& each) { return each.finish_reason() == "length"; });
  // Counted before it is told: who has its answer finds it in the metrics.
  end(by_length ? outcome::length : outcome::stop);
  output(writer_->finish(generation_->usage()), true);
}

// -- ends
// --------------------------------------------------------------------------------------------------------

void generation_session::give_up(const http::api_error& error) {
  if (ended_) return;
  end(outcome_of(error.status));
  output(writer_ ? writer_->fail(error) : format_error(error, context_->extra_headers, keep_alive_), true);
}

void generation_session::shut_down() {
  keep_alive_ = false;
  if (writer_) writer_->close_afterwards();
  give_up({.status = 503,
           .message = "The server is shutting down and did not finish this request. Please try again later.",
           .type = "service_unavailable",
           .code = "shutting_down",
           .retry_after_seconds = 5});
}

void generation_session::end(outcome how) {
  if (ended_) return;
  ended_ = true;
  if (job_) job_->abandoned = true;
  context_->environment.recorder->request_ended(how, now() - arrived_);
  quit();
}

void generation_session::settle_legs() {
  auto& legs = generation_->legs();
  for (auto entry = legs.begin(); entry != legs.end();) {
    const generation::leg& leg = entry->second;
    const bool complete = generation_->complete(leg);
    if (leg.state != generation::leg_state::ended && !complete) {
      ++entry;
      continue;
    }
    if (leg.state == generation::leg_state::ended) tell_conductor(leg, true);
    if (leg.state == generation::leg_state::placed) tell_conductor(leg, generation_->stopped_early(leg));
    entry = legs.erase(entry);
  }
  // Admission counts a client's request until its choices are done, whichever leg did them; but a leg that
  // was called back may still be in its queue.
  std::erase_if(owed_to_admission_, [this](const generation::leg& leg) {
    const bool called_back = generation_->called_back(leg.header.leg);
    const bool over = called_back || generation_->complete(leg);
    if (over) tell_admission(leg, called_back || generation_->stopped_early(leg));
    return over;
  });
}

void generation_session::tell_conductor(const generation::leg& which, bool cancel) {
  if (origin_.peers.conductor)
    send(origin_.peers.conductor, make_leg_ended(which.header, context_->environment.incarnation, cancel));
}

void generation_session::tell_admission(const generation::leg& which, bool cancel) {
  if (origin_.peers.admission)
    send(origin_.peers.admission, make_leg_ended(which.header, context_->environment.incarnation, cancel));
}

void generation_session::output(std::string_view bytes, bool last) {
  if (bytes.empty() && !last) return;
  last_output_ = now();
  const auto words = static_cast<unsigned>(bytes.size() / sizeof(capnp::word) + 16);
  send(origin_.broker,
       messages::http_output::build(
           [&](schema::HttpOutput::Builder builder) {
             builder.setConnection(connection_);
             builder.setBytes({reinterpret_cast<const capnp::byte*>(bytes.data()), bytes.size()});
             builder.setLast(last);
             builder.setClose(last && (writer_ ? writer_->must_close() : !keep_alive_));
           },
           words));
}

void generation_session::on_exit() {
  // Every end comes by here, an exception's too: nobody goes on working for a session that is no more.
  if (job_) job_->abandoned = true;
  if (generation_) {
    for (const auto& [id, leg] : generation_->legs())
      if (leg.state != generation::leg_state::unplaced) tell_conductor(leg, true);
    for (const generation::leg& leg : owed_to_admission_) tell_admission(leg, true);
  }
  if (!ended_) context_->environment.recorder->request_ended(outcome::failed, now() - arrived_);
  owed_to_admission_.clear();
  generation_.reset();
  // Whoever is monitored keeps a note of it for its own lifetime, and with it the memory of this actor.
  demonitor(origin_.broker.address());
  if (origin_.peers.admission) demonitor(origin_.peers.admission.address());
  if (origin_.peers.conductor) demonitor(origin_.peers.conductor.address());
  origin_ = session_origin{};
  // A dead broker's mailbox may hold this actor as a sender; through the context it would hold the heavy
  // lane, too, and CAF waits for detached actors to be freed before the process ends.
  context_.reset();
}

}  // namespace yolk::actors
