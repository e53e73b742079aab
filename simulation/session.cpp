#include "simulation/session.hpp"

#include <caf/all.hpp>

#include "actors/conversions.hpp"

namespace yolk::simulation {

namespace {

namespace schema = messages::schema;
using reason = schema::LegFailed::Reason;

class session_state {
 public:
  static inline const char* name = "simulated_session";

  void start(messages::session_actor::pointer self, session_context* context, const trace_request& request) {
    self_ = self;
    context_ = context;
    outcome_.arrival = context_->clock.now();
    outcome_.input_tokens = request.input_tokens;
    max_tokens_ = request.output_tokens;
    seed_ = request.number;
    tokens_ = tokens_of(request);
    ++context_->open_count;
    context_->results.arrived(outcome_.arrival);
    first_leg_ = place();
    self_->send(context_->admission, request_, messages::session_actor{self_});
  }

  void take(const messages::token_batch& batch) {
    const auto given = batch.read();
    const auto generated = tokens_.size() - outcome_.input_tokens;
    if (ended_ || given->getHeader().getLegId() != leg_ || given->getFirstIndex() != generated) return;
    const auto now = context_->clock.now();
    if (generated == 0) {
      outcome_.first_token = now;
      outcome_.cached_tokens = given->getCachedTokens();
      context_->results.first_token(now);
    } else {
      outcome_.gap_seconds.push_back(std::chrono::duration<float>(now - last_token_).count());
    }
    last_token_ = now;
    for (auto token : given->getTokens()) tokens_.push_back(token.getId());
    if (given->getFinish() != schema::TokenBatch::Finish::NONE) end(request_end::finished);
  }

  void failed(const messages::leg_failed& failed) {
    const auto given = failed.read();
    if (ended_ || given->getHeader().getLegId() != leg_) return;
    const auto why = given->getReason();
    const bool fault = why == reason::WORKER_LOST || why == reason::TRANSFER_FAILED;
    if (why == reason::PREEMPTED || (fault && ++faults_ <= context_->max_faults)) {
      tell_conductor(true);
      ++outcome_.resumes;
      place();
      self_->send(context_->conductor, request_, messages::session_actor{self_});
      return;
    }
    outcome_.cause = given->getMessage().cStr();
    end(why == reason::REFUSED || why == reason::UNAVAILABLE ? request_end::refused : request_end::failed);
  }

 private:
  /// Builds the request of a new leg: the prompt, and what was generated so far.
  std::uint64_t place() {
    leg_ = ++context_->last_leg;
    core::sampling_params params;
    params.temperature = 0.0f;
    params.max_tokens = max_tokens_;
    params.ignore_eos = true;
    const std::vector<std::uint64_t> seeds = {seed_};
    const auto words =
        static_cast<unsigned>(tokens_.size() * sizeof(core::token_id) / sizeof(capnp::word) + 128);
    request_ = messages::generate_request::build(
        [&](schema::GenerateRequest::Builder builder) {
          actors::write(builder.initHeader(), header(), context_->incarnation);
          builder.setTokens(actors::as_data(tokens_));
          builder.setPromptLength(outcome_.input_tokens);
          actors::write(builder.initSampling(), params, seeds);
          actors::write(builder.initRoot(), context_->root);
          builder.setChoiceCount(1);
        },
        words);
    return leg_;
  }

  [[nodiscard]] actors::leg_header header() const { return {leg_, seed_, outcome_.resumes}; }

  void tell_conductor(bool cancel) {
    self_->send(context_->conductor, actors::make_leg_ended(header(), context_->incarnation, cancel));
  }

  void end(request_end how) {
    ended_ = true;
    tell_conductor(how != request_end::finished);
    self_->send(context_->admission, actors::make_leg_ended({first_leg_, seed_, 0}, context_->incarnation,
                                                            how != request_end::finished));
    outcome_.how = how;
    outcome_.end = context_->clock.now();
    outcome_.output_tokens = static_cast<std::uint32_t>(tokens_.size()) - outcome_.input_tokens;
    context_->results.ended(std::move(outcome_));
    --context_->open_count;
    self_->quit();
  }

  messages::session_actor::pointer self_ = nullptr;
  session_context* context_ = nullptr;
  messages::generate_request request_;
  std::vector<core::token_id> tokens_;  ///< prompt, then generated
  request_outcome outcome_;
  core::time_point last_token_{};
  std::uint32_t max_tokens_ = 0;
  std::uint64_t seed_ = 0;
  std::uint64_t leg_ = 0;
  std::uint64_t first_leg_ = 0;
  std::uint32_t faults_ = 0;
  bool ended_ = false;
};

messages::session_actor::behavior_type run_session(
    messages::session_actor::stateful_pointer<session_state> self, session_context* context,
    const trace_request& request) {
  auto* state = &self->state;
  state->start(self, context, request);
  return {[state](const messages::token_batch& batch) { state->take(batch); },
          [state](const messages::leg_failed& failed) { state->failed(failed); }};
}

}  // namespace

void begin_session(caf::actor_system& system, session_context& context, const trace_request& request) {
  system.spawn(run_session, &context, request);
}

}  // namespace yolk::simulation
