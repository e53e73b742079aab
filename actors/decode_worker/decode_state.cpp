#include "actors/decode_worker/decode_state.hpp"

#include <algorithm>
#include <caf/all.hpp>
#include <cstring>
#include <utility>

#include "kvcache/block_header.hpp"

namespace yolk::actors {

namespace schema = messages::schema;
using reason = schema::LegFailed::Reason;

decode_state::decode_state(decode_internal_actor::pointer self, const decode_options& options,
                           std::shared_ptr<worker_environment> environment)
    : self_(self),
      options_(options),
      environment_(std::move(environment)),
      cache_(environment_->block_count, environment_->layout.block_tokens),
      last_progress_(environment_->clock->now()),
      hashing_(std::make_unique<core::background_thread>("decode-hash", environment_->hashing)),
      offers_(*environment_, cache_, *hashing_) {}

decode_state::~decode_state() {
  // Threads end before what they touch does.
  environment_->executor.reset();
  hashing_->stop();
  environment_->transfers.reset();
}

void decode_state::form_step() {
  if (!step_.empty()) return;
  // Oldest first: when blocks run out, the youngest gives way.
  const auto candidates = running_;
  for (const auto& sequence : candidates) {
    if (step_.size() >= options_.max_batch) break;
    if (!sequence->ended && make_room(sequence)) step_.push_back(sequence);
  }
  std::erase_if(step_,
                [](const sequence_ptr& sequence) { return sequence->ended; });  // preempted by an older one
  if (step_.empty()) return;
  // Beyond max_batch, those who ran go behind those who did not.
  if (running_.size() > options_.max_batch)
    std::stable_partition(running_.begin(), running_.end(), [this](const sequence_ptr& sequence) {
      return std::find(step_.begin(), step_.end(), sequence) == step_.end();
    });

  model::step work;
  work.kind = gpu::step_class::decode;
  for (const auto& sequence : step_) {
    sequence->in_step = true;
    model::step_slice slice;
    slice.tokens = {sequence->tokens.back()};
    slice.first_position = static_cast<std::uint32_t>(sequence->tokens.size()) - 1;
    const auto blocks = sequence->blocks.blocks();
    slice.blocks.assign(blocks.begin(), blocks.end());
    slice.samplers = {sequence->sampler};
    work.slices.push_back(std::move(slice));
  }
  const auto me = caf::actor_cast<caf::actor>(self_);
  environment_->executor->submit(std::move(work), nullptr, [me](model::step_result result) {
    caf::anon_send(me, decode_step_done{std::make_shared<const model::step_result>(std::move(result))});
  });
}

/// The block that this step writes to exists and is the sequence's own: choices of one prompt share its
/// blocks until each of them goes on filling the last.
bool decode_state::make_room(const sequence_ptr& sequence) {
  if (environment_->layout.blocks_for(static_cast<std::uint32_t>(sequence->tokens.size())) >
      cache_.block_count()) {
    // The gateway bounds sequences by the smallest pool, so this one was not asked for through it.
    self_->send(sequence->session,
                make_leg_failed(sequence->header, environment_->incarnation, reason::INTERNAL,
                                "the sequence is longer than the decode worker's pool"));
    end(sequence, false);
    return false;
  }
  for (;;) {
    if (const auto room = sequence->blocks.append(1)) {
      if (room->copy) {
        const auto source = block_bytes(*environment_, room->copy->source);
        std::memcpy(block_bytes(*environment_, room->copy->target).data(), source.data(), source.size());
        sequence->blocks.copied();
      }
      return true;
    }
    if (!preempt_one(sequence)) return false;
  }
}

/// Gives up the youngest other leg for an older sequence: its session has it computed again, later. Where all
/// that runs is one leg's choices, the leg itself gives way: it is resumed as one leg per choice, which fit
/// one by one. True when blocks became free for `keep`.
bool decode_state::preempt_one(const sequence_ptr& keep) {
  const auto others = [&](const sequence_ptr& s) { return !s->ended && s != keep; };
  auto victim = std::find_if(running_.rbegin(), running_.rend(), [&](const sequence_ptr& s) {
    return others(s) && s->header.leg != keep->header.leg;
  });
  if (victim == running_.rend()) victim = std::find_if(running_.rbegin(), running_.rend(), others);
  if (victim == running_.rend()) return false;  // reservations hold the rest; they end
  ++preemptions_;
  environment_->recorder->preemption();
  give_up((*victim)->header, "decode ran out of blocks", false);
  return !keep->ended;
}

/// Its session has what is left of the leg computed elsewhere, or here, later.
void decode_state::give_up(const leg_header& header, const std::string& why, bool keep_blocks) {
  const auto all = running_;
  bool told = false;
  for (const auto& sequence : all) {
    if (sequence->header.leg != header.leg || sequence->ended) continue;
    // Offered before the session hears of it: the leg that follows may find them.
    end(sequence, keep_blocks);
    if (!std::exchange(told, true))
      self_->send(sequence->session,
                  make_leg_failed(header, environment_->incarnation, reason::PREEMPTED, why));
  }
}

void decode_state::drain() {
  draining_ = true;
  const auto all = running_;
  for (const auto& sequence : all)
    if (!sequence->ended) give_up(sequence->header, "the decode worker's node is being drained", true);
}

void decode_state::step_done(const decode_step_done& done) {
  const auto step = std::move(step_);
  step_.clear();
  last_progress_ = environment_->clock->now();
  ++steps_done_;
  tokens_done_ += step.size();
  environment_->recorder->step(metrics::step_kind::decode, static_cast<std::uint32_t>(step.size()),
                               done.result->elapsed);
  for (std::size_t i = 0; i < step.size(); ++i) {
    step[i]->in_step = false;
    if (step[i]->ended)
      end(step[i], true);  // cancelled meanwhile: only now its blocks are free
    else if (done.result->samples[i].empty())
      give_up(step[i]);
    else
      advance(step[i], done.result->samples[i].front());
  }
  expire();
  grant_waiting();
  form_step();
  report();
}

void decode_state::advance(const sequence_ptr& sequence, const core::sampled_token& token) {
  const auto index = static_cast<std::uint32_t>(sequence->tokens.size()) - sequence->prompt_length;
  sequence->tokens.push_back(token.token);
  const auto finish =
      finish_after(token.token, sequence->sampling, environment_->model, index + 1, sequence->tokens.size());
  self_->send(sequence->session,
              make_token_batch(sequence->request.read()->getHeader(), environment_->incarnation,
                               sequence->choice, index, token, finish, 0));
  if (finish != schema::TokenBatch::Finish::NONE) end(sequence, true);
}

/// There is no next token. Its leg's other choices go with it: the session gives up on all of them.
void decode_state::give_up(const sequence_ptr& sequence) {
  self_->send(sequence->session, make_leg_failed(sequence->header, environment_->incarnation,
                                                 reason::INTERNAL, no_finite_logits));
  const auto all = running_;
  for (const auto& each : all) {
    if (each->header.leg != sequence->header.leg || each->ended) continue;
    each->broken = true;
    end(each, false);
  }
}

void decode_state::end(const sequence_ptr& sequence, bool keep_blocks) {
  sequence->ended = true;
  if (sequence->in_step) return;  // step_done comes back here
  const auto found = std::find(running_.begin(), running_.end(), sequence);
  if (found != running_.end()) running_.erase(found);
  if (!sequence->broken) {
    // KV of the newest token was never computed.
    const auto known = sequence->tokens.size() - 1;
    const auto full_blocks = static_cast<std::uint32_t>(known) / block_tokens();
    cache_.insert(sequence->root, std::span(sequence->tokens).first(known), sequence->blocks.blocks());
    if (keep_blocks) offer(sequence, full_blocks);
  }
  sequence->blocks.release();
}

void decode_state::cancel(std::uint64_t leg_id) {
  if (const auto found = reservations_.find(leg_id); found != reservations_.end()) {
    // While KV may still be written, the prefill worker says when its writes have ended (or its lease does).
    // It may have handed over already: the handoff then finds the leg cancelled.
    if (found->second->phase == reservation_phase::waiting)
      drop(found->second);
    else
      found->second->cancelled = true;
  }
  const auto all = running_;
  for (const auto& sequence : all)
    if (sequence->header.leg == leg_id && !sequence->ended) end(sequence, true);
  grant_waiting();
  form_step();
}

void decode_state::offer(const sequence_ptr& sequence, std::uint32_t full_blocks) {
  const auto first = std::max(sequence->leg_length, sequence->pool_cached_tokens) / block_tokens();
  if (!sequence->shard || first >= full_blocks) return;
  offers_.open(make_offer(*environment_, sequence->root, sequence->tokens, sequence->blocks.blocks(), first,
                          full_blocks),
               sequence->shard, caf::actor_cast<caf::actor>(self_));
}

void decode_state::send_offer(std::uint64_t number) {
  const auto* offer = offers_.find(number);
  if (offer == nullptr) return;
  self_->request(offer->shard, options_.offer_timeout, offer_message(*offer, number, *environment_))
      .then([this, number](const messages::offer_done&) { offer_answered(number); },
            [this, number](const caf::error&) { offer_answered(number); });
}

void decode_state::offer_answered(std::uint64_t number) {
  offers_.close(number);
  grant_waiting();
  form_step();
}

void decode_state::set_conductor(const messages::conductor_reports& conductor) {
  conductor_ = conductor;
  report();
}

void decode_state::tick() {
  expire();
  grant_waiting();
  form_step();
  report();
}

void decode_state::report() {
  const auto used = cache_.block_count() - cache_.available_count();
  environment_->recorder->kv_usage("device", "decode", environment_->id.value,
                                   static_cast<double>(used) / std::max(1u, cache_.block_count()));
  if (!conductor_) return;
  std::uint64_t context_tokens = 0;
  for (const auto& sequence : running_) context_tokens += sequence->tokens.size();
  self_->send(conductor_, messages::worker_load::build([&](schema::WorkerLoad::Builder builder) {
                builder.setWorker(environment_->id.value);
                builder.setIncarnation(environment_->incarnation.value);
                builder.setRunningSequences(static_cast<std::uint32_t>(running_.size()));
                builder.setWaitingSequences(static_cast<std::uint32_t>(waiting_.size()));
                builder.setContextTokens(context_tokens);
                builder.setFreeTokens(std::uint64_t{cache_.available_count()} * block_tokens());
              }));
}

messages::actor_status decode_state::status(std::uint64_t serial) const {
  const bool at_rest = running_.empty() && reservations_.empty() && offers_.empty() && step_.empty();
  return messages::actor_status::build([&](schema::ActorStatus::Builder builder) {
    builder.setSerial(serial);
    builder.setKind(schema::ActorKind::DECODE_WORKER);
    write_worker(builder, *environment_, cache_);
    builder.setRunning(static_cast<std::uint32_t>(running_.size()));
    builder.setWaiting(static_cast<std::uint32_t>(std::ranges::count_if(reservations_, [](const auto& entry) {
      return entry.second->phase != reservation_phase::resting;  // nobody's work any more
    })));
    builder.setStepsDone(steps_done_);
    builder.setTokensDone(tokens_done_);
    builder.setPreemptions(preemptions_);
    write_progress(builder, !step_.empty(), environment_->clock->now() - last_progress_);
    if (at_rest) builder.setAudit(cache_.audit());
  });
}

}  // namespace yolk::actors
