#include "actors/conductor/conductor.hpp"

#include <algorithm>
#include <caf/all.hpp>

#include "actors/conductor/conductor_state.hpp"

namespace yolk::actors {

namespace schema = messages::schema;
using reason = schema::LegFailed::Reason;

namespace {

constexpr auto tick_interval = std::chrono::milliseconds(250);

scheduling::location place_of(core::worker_id worker) {
  return {.node = core::node_of(worker)};
}

struct holder {
  std::unique_ptr<conductor_state> state;
  static inline const char* name = "conductor";
};

conductor_internal_actor::behavior_type run(conductor_internal_actor::stateful_pointer<holder> self,
                                            const conductor_options& options,
                                            const conductor_environment& environment) {
  self->state.state = std::make_unique<conductor_state>(self, options, environment);
  auto* state = self->state.state.get();
  self->set_down_handler([state](const caf::down_msg& down) { state->peer_down(down.source); });
  self->delayed_send(self, tick_interval, messages::tick_atom::value);
  return {
      [state](const messages::status_request& request) { return state->status(request.read()->getSerial()); },
      [state](const messages::generate_request& request, const messages::session_actor& session) {
        state->place(request, session);
      },
      [state](const messages::leg_ended& ended) { state->leg_ended(ended); },
      [state](const messages::prefill_ended& ended) { state->prefill_ended(ended); },
      [state](const messages::worker_load& load) { state->load_changed(load); },
      [state](const messages::cache_events& events) { state->cache_changed(events); },
      [state](const messages::actor_joined& news, const messages::prefill_worker_actor& worker) {
        state->joined(news, worker);
      },
      [state](const messages::actor_joined& news, const messages::decode_worker_actor& worker) {
        state->joined(news, worker);
      },
      [state](const messages::actor_joined& news, const messages::cache_shard_actor& shard) {
        state->joined(news, shard);
      },
      [state](const messages::drain_node& drain) { state->drain(drain.read()->getNumber()); },
      [self, state](messages::tick_atom) {
        state->tick();
        self->delayed_send(self, tick_interval, messages::tick_atom::value);
      },
  };
}

}  // namespace

messages::conductor_actor spawn_conductor(caf::actor_system& system, const conductor_options& options,
                                          conductor_environment environment) {
  return system.spawn(run, options, std::move(environment));
}

conductor_state::conductor_state(conductor_internal_actor::pointer self, const conductor_options& options,
                                 conductor_environment environment)
    : self_(self),
      options_(options),
      environment_(std::move(environment)),
      policy_(
          std::move(scheduling::make_placement_policy(options.placement, options.placement_options)).value()),
      latency_(options.latency, options.correction),
      rule_(scheduling::find_admission_rule(options.admission).value()) {}

void conductor_state::place(const messages::generate_request& request,
                            const messages::session_actor& session) {
  const auto given = request.read();
  placed_leg leg;
  leg.header = header_of(given->getHeader());
  leg.request = request;
  leg.session = session;
  leg.token_count = static_cast<std::uint32_t>(given->getTokens().size() / sizeof(core::token_id));
  leg.choice_count = given->getChoiceCount();
  leg.wait_end = environment_.clock->now() + options_.max_wait;
  leg.arrived_seconds = leg.wait_key = now_seconds();
  self_->monitor(session);
  const auto [found, fresh] = legs_.emplace(leg.header.leg, std::move(leg));
  if (!fresh) return;
  place_waiting();  // those before it first
  auto tried = try_place(found->second);
  const bool full = waiting_.size() >= options_.max_waiting;
  if (tried == attempt::held && full) tried = start(found->second, *choose(found->second, false));
  if (tried == attempt::placed) return;
  if (tried != attempt::refused && !full) {
    waiting_.emplace(found->second.wait_key, found->first);
    return;
  }
  if (tried == attempt::no_worker)
    self_->send(session, make_leg_failed(found->second.header, environment_.incarnation, reason::UNAVAILABLE,
                                         "no worker is there, and too many requests wait for one"));
  legs_.erase(found);
}

double conductor_state::now_seconds() const {
  return std::chrono::duration<double>(environment_.clock->now().time_since_epoch()).count();
}

std::optional<scheduling::placement> conductor_state::choose(placed_leg& leg, bool may_hold) {
  const auto request = leg.request.read();
  const auto tokens = numbers_of<core::token_id>(request->getTokens());
  const auto keys = kvcache::keys_of(key_of(request->getRoot()), tokens, options_.block_tokens);
  const auto matches = index_.matches(keys);  // by holder
  const auto cached = [&](core::worker_id holder) {
    const auto found = std::ranges::lower_bound(matches, holder, {}, &kvcache::cache_index::match::holder);
    return found != matches.end() && found->holder == holder ? found->leading * options_.block_tokens : 0;
  };
  const double now = now_seconds();
  std::vector<scheduling::prefill_candidate> prefill;
  for (const auto& [id, worker] : prefill_) {
    if (worker.draining) continue;
    prefill.push_back({.worker = id,
                       .at = place_of(id),
                       .queue_seconds = worker.queue.seconds(now),
                       .queued_requests = static_cast<std::uint32_t>(worker.queue.size()),
                       .queued_tokens = worker.placed_tokens,
                       .device_cached_tokens = cached(id)});
  }
  std::vector<scheduling::prefix_holder> holders;
  for (const auto& [id, shard] : shards_)
    if (const auto there = cached(id); there > 0)
      holders.push_back({.holder = id, .at = place_of(id), .cached_tokens = there});
  std::vector<scheduling::decode_candidate> decode;
  for (const auto& [id, worker] : decode_) {
    if (worker.draining) continue;
    decode.push_back({.worker = id,
                      .at = place_of(id),
                      .sequences = worker.placed_sequences,
                      .context_tokens = worker.placed_tokens,
                      .free_tokens = worker.free_tokens});
  }
  std::vector<std::uint64_t> prefix_ids;
  if (policy_->reads_prefix())
    for (const auto& key : keys) prefix_ids.push_back(key.low);
  const auto chosen =
      policy_->place({.number = leg.header.leg,
                      .prompt_tokens = leg.token_count,
                      .choice_count = leg.choice_count,
                      .now_seconds = now,
                      .prefix_ids = prefix_ids,
                      .block_tokens = options_.block_tokens,
                      .may_hold = may_hold},
                     {.prefill = prefill, .holders = holders, .decode = decode, .latency = &latency_});
  if (!chosen) return chosen;
  leg.source = chosen->source ? shards_.at(*chosen->source).handle : messages::cache_shard_actor();
  choose_keeper(leg, holders, keys.empty() ? 0 : keys.back().low, chosen->prefill);
  return chosen;
}

scheduling::slo_view conductor_state::slo_view_of(const placed_leg& leg,
                                                  const scheduling::placement& where) const {
  scheduling::decode_shape held;
  if (rule_ == scheduling::admission_rule::hold && !leg.held) held = held_before(leg.wait_key).decode;
  return {.now_seconds = now_seconds(),
          .slo = &options_.slo,
          .highest_priority = options_.slo.priority,
          .where = &where,
          // With what is expected to be generated: what it will have added in the end.
          .share = {leg.choice_count, (std::uint64_t{leg.token_count} +
                                       scheduling::placement_request{}.expected_output_tokens) *
                                          leg.choice_count},
          .held_before = held,
          .decode_workers = static_cast<std::uint32_t>(std::max<std::size_t>(decode_.size(), 1)),
          .forecast = &forecast_,
          .latency = &latency_};
}

void conductor_state::refuse(const placed_leg& leg, const scheduling::slo_decision& decision) {
  self_->send(leg.session, make_leg_failed(leg.header, environment_.incarnation, reason::REFUSED,
                                           decision.cause == scheduling::refusal_cause::prefill
                                               ? "the first token would come later than its target"
                                               : "tokens would come more slowly than their target",
                                           decision.retry_after_seconds));
}

bool conductor_state::admit(const placed_leg& leg, const scheduling::placement& where) {
  // What was resumed has been computed for already, and what was held was admitted.
  if (leg.header.attempt > 0 || leg.held) return true;
  const auto decision = scheduling::judge_arrival(rule_, slo_view_of(leg, where));
  if (!decision.admitted()) refuse(leg, decision);
  return decision.admitted();
}

conductor_state::held_sum conductor_state::held_before(double key) const {
  held_sum sum;
  for (const auto& [other, id] : waiting_) {
    if (other > key) break;
    const auto found = legs_.find(id);
    if (found == legs_.end()) continue;
    sum.prefill_seconds += found->second.service_seconds;
    sum.decode.sequences += found->second.choice_count;
    sum.decode.context_tokens += std::uint64_t{found->second.token_count} * found->second.choice_count;
  }
  return sum;
}

conductor_state::attempt conductor_state::hold(placed_leg& leg) {
  if (leg.held) return attempt::held;
  auto where = choose(leg, false);
  if (!where) return attempt::no_worker;
  leg.service_seconds = where->service_seconds;
  leg.wait_key =
      scheduling::hold_key(leg.arrived_seconds, where->service_seconds, options_.placement_options);
  where->predicted_ttft_seconds +=
      held_before(leg.wait_key).prefill_seconds / static_cast<double>(prefill_.size());
  if (!admit(leg, *where)) return attempt::refused;
  leg.held = true;
  return attempt::held;
}

conductor_state::attempt conductor_state::try_place(placed_leg& leg) {
  const auto chosen = choose(leg, true);
  if (!chosen && (prefill_.empty() || decode_.empty())) return attempt::no_worker;
  if (!chosen || scheduling::must_hold(rule_, slo_view_of(leg, *chosen))) return hold(leg);
  return admit(leg, *chosen) ? start(leg, *chosen) : attempt::refused;
}

conductor_state::attempt conductor_state::start(placed_leg& leg, const scheduling::placement& chosen) {
  auto& at = prefill_.at(chosen.prefill);
  auto& then = decode_.at(chosen.decode);
  leg.prefill = chosen.prefill;
  leg.decode = chosen.decode;
  leg.phase = placed_phase::prefilling;
  leg.uncached_tokens = leg.token_count - chosen.reused_tokens;
  at.queue.placed(leg.header.leg, chosen.service_seconds, now_seconds());
  at.placed_tokens += leg.uncached_tokens;
  then.placed_tokens += leg.token_count;
  then.placed_sequences += leg.choice_count;
  ++placements_;
  forecast_.placed(leg.header.leg, leg.decode, slo_view_of(leg, chosen).share,
                   now_seconds() + chosen.predicted_ttft_seconds);
  const auto order = messages::prefill_order::build([&](schema::PrefillOrder::Builder builder) {
    write(builder.initHeader(), leg.header, environment_.incarnation);
    builder.setPoolCachedTokens(chosen.source_tokens);
    builder.setKeptTokens(leg.kept_tokens);
  });
  self_->send(at.handle, order, leg.request, leg.session, then.handle, leg.source, leg.keeper);
  return attempt::placed;
}

void conductor_state::choose_keeper(placed_leg& leg, std::span<const scheduling::prefix_holder> holders,
                                    std::uint64_t spread, core::worker_id prefill) const {
  leg.keeper = messages::cache_shard_actor();
  leg.kept_tokens = 0;
  if (shards_.empty()) return;
  const auto own = std::find_if(shards_.begin(), shards_.end(), [&](const auto& shard) {
    return core::node_of(shard.first) == core::node_of(prefill);
  });
  auto best = own != shards_.end()
                  ? own
                  : std::next(shards_.begin(), static_cast<std::ptrdiff_t>(spread % shards_.size()));
  const auto known = std::ranges::find(holders, best->first, &scheduling::prefix_holder::holder);
  if (known != holders.end()) leg.kept_tokens = known->cached_tokens;
  if (own == shards_.end())
    for (const auto& holder : holders) {
      if (holder.cached_tokens <= leg.kept_tokens) continue;
      best = shards_.find(holder.holder);
      leg.kept_tokens = holder.cached_tokens;
    }
  leg.keeper = best->second.handle;
}

void conductor_state::place_waiting() {
  const auto now = environment_.clock->now();
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto found = legs_.find(next->second);
    auto& leg = found->second;
    const auto tried = try_place(leg);
    if (tried == attempt::held) {
      // It may be new among those that are held, at another place.
      waiting_.erase(next);
      waiting_.emplace(leg.wait_key, leg.header.leg);
      return;  // what holds the first holds them all
    }
    if (tried == attempt::no_worker && std::exchange(leg.held, false)) leg.wait_end = now + options_.max_wait;
    if (tried == attempt::no_worker && now < leg.wait_end) {
      ++next;
      continue;
    }
    if (tried == attempt::no_worker)
      self_->send(leg.session, make_leg_failed(leg.header, environment_.incarnation, reason::UNAVAILABLE,
                                               "no worker came back in time"));
    if (tried != attempt::placed) legs_.erase(found);
    next = waiting_.erase(next);
  }
}

void conductor_state::uncount_prefill(placed_leg& leg) {
  if (leg.phase != placed_phase::prefilling) return;
  leg.phase = placed_phase::decoding;
  const auto found = prefill_.find(leg.prefill);
  if (found == prefill_.end()) return;
  found->second.placed_tokens -= std::min<std::uint64_t>(found->second.placed_tokens, leg.uncached_tokens);
  found->second.queue.left(leg.header.leg, now_seconds());
}

void conductor_state::uncount_decode(const placed_leg& leg) {
  if (leg.phase == placed_phase::waiting) {
    waiting_.erase({leg.wait_key, leg.header.leg});
    return;
  }
  forecast_.ended(leg.header.leg, now_seconds());
  const auto found = decode_.find(leg.decode);
  if (found == decode_.end()) return;
  found->second.placed_tokens -= std::min<std::uint64_t>(found->second.placed_tokens, leg.token_count);
  found->second.placed_sequences -= std::min(found->second.placed_sequences, leg.choice_count);
}

void conductor_state::tell_workers_to_cancel(const placed_leg& leg) {
  const auto cancel = make_cancel_leg(leg.header, environment_.incarnation);
  if (const auto found = prefill_.find(leg.prefill); found != prefill_.end())
    self_->send(found->second.handle, cancel);
  if (const auto found = decode_.find(leg.decode); found != decode_.end())
    self_->send(found->second.handle, cancel);
}

void conductor_state::leg_ended(const messages::leg_ended& ended) {
  const auto header = header_of(ended.read()->getHeader());
  const auto found = legs_.find(header.leg);
  if (found == legs_.end()) {
    if (!ended.read()->getCancel()) return;
    // Placed by an earlier incarnation of ours: whoever has it must hear of it.
    const auto cancel = make_cancel_leg(header, environment_.incarnation);
    for (const auto& [id, worker] : prefill_) self_->send(worker.handle, cancel);
    for (const auto& [id, worker] : decode_) self_->send(worker.handle, cancel);
    return;
  }
  if (ended.read()->getCancel() && found->second.phase != placed_phase::waiting)
    tell_workers_to_cancel(found->second);
  const bool frees_prefill = found->second.phase == placed_phase::prefilling;
  uncount_decode(found->second);
  uncount_prefill(found->second);
  legs_.erase(found);
  if (frees_prefill) place_waiting();
}

void conductor_state::prefill_ended(const messages::prefill_ended& ended) {
  const auto given = ended.read();
  const auto found = legs_.find(given->getHeader().getLegId());
  if (const auto computed = given->getComputedTokens(); computed > 0) {
    const auto prompt = found != legs_.end() ? std::max(found->second.token_count, computed) : computed;
    latency_.observe_prefill({.prompt_tokens = prompt, .cached_tokens = prompt - computed},
                             given->getComputeSeconds());
  }
  if (found == legs_.end() || found->second.prefill.value != given->getWorker()) return;
  auto& leg = found->second;
  uncount_prefill(leg);
  const auto decision = scheduling::judge_after_prefill(rule_, slo_view_of(leg, {.decode = leg.decode}));
  if (leg.header.attempt > 0 || decision.admitted()) {
    forecast_.decoding(leg.header.leg, now_seconds());
  } else {
    tell_workers_to_cancel(leg);
    refuse(leg, decision);
    uncount_decode(leg);
    legs_.erase(found);
  }
  place_waiting();
}

void conductor_state::load_changed(const messages::worker_load& load) {
  const auto given = load.read();
  const core::worker_id id{given->getWorker()};
  if (const auto found = decode_.find(id);
      found != decode_.end() && found->second.incarnation.value == given->getIncarnation())
    found->second.free_tokens = given->getFreeTokens();
}

void conductor_state::cache_changed(const messages::cache_events& events) {
  const auto given = events.read();
  std::vector<kvcache::cache_event> changes;
  changes.reserve(given->getChanges().size());
  for (auto change : given->getChanges())
    changes.push_back(
        {change.getStored() ? kvcache::cache_event::kind::stored : kvcache::cache_event::kind::evicted,
         key_of(change.getKey())});
  const core::worker_id holder{given->getHolder()};
  if (index_.apply(holder, {given->getIncarnation()}, given->getSequence(), changes) ==
      kvcache::cache_index::applied::needs_snapshot)
    ask_for_snapshot(holder);
}

void conductor_state::ask_for_snapshot(core::worker_id holder) {
  const auto ask = messages::snapshot_request::build([](schema::SnapshotRequest::Builder) {});
  const auto take = [this](const messages::cache_snapshot& snapshot) {
    const auto given = snapshot.read();
    const auto keys = numbers_of<kvcache::block_key>(given->getKeys());
    index_.replace({given->getHolder()}, {given->getIncarnation()}, given->getSequence(), keys);
  };
  const auto missed = [](const caf::error&) {};  // the next event finds the gap again
  if (const auto found = shards_.find(holder); found != shards_.end())
    self_->request(found->second.handle, options_.snapshot_timeout, ask).then(take, missed);
  else if (const auto at = prefill_.find(holder); at != prefill_.end())
    self_->request(at->second.handle, options_.snapshot_timeout, ask).then(take, missed);
}

template <class Handle>
void conductor_state::joined(const messages::actor_joined& news, const Handle& handle) {
  const auto given = news.read();
  const core::worker_id id{given->getId()};
  // Its predecessor's end may not have been told to us yet; the news of a successor is that news, too.
  if (const auto old = workers_of(handle).find(id);
      old != workers_of(handle).end() && old->second.handle != handle)
    peer_down(old->second.handle.address());
  workers_of(handle)[id] = {handle, {given->getIncarnation()}, given->getCapacityTokens()};
  self_->monitor(handle);
  // What it holds is not known yet: after our own restart that is much, after its restart nothing.
  ask_for_snapshot(id);
  place_waiting();
}

template <class Map>
std::optional<core::worker_id> conductor_state::forget(Map& workers, const caf::actor_addr& who) {
  const auto found = std::find_if(workers.begin(), workers.end(),
                                  [&](const auto& entry) { return entry.second.handle.address() == who; });
  if (found == workers.end()) return std::nullopt;
  const auto id = found->first;
  workers.erase(found);
  index_.remove(id);
  return id;
}

void conductor_state::fail_legs_of(core::worker_id lost, bool was_prefill) {
  std::vector<std::uint64_t> ended;
  for (auto& [id, leg] : legs_) {
    const bool hit = was_prefill ? leg.phase == placed_phase::prefilling && leg.prefill == lost
                                 : leg.phase != placed_phase::waiting && leg.decode == lost;
    if (!hit) continue;
    tell_workers_to_cancel(leg);
    uncount_decode(leg);
    uncount_prefill(leg);
    self_->send(leg.session,
                make_leg_failed(leg.header, environment_.incarnation, reason::WORKER_LOST,
                                was_prefill ? "the prefill worker died" : "the decode worker died"));
    ended.push_back(id);
  }
  for (const auto id : ended) legs_.erase(id);
}

void conductor_state::drain(std::uint32_t node) {
  for (auto& [id, worker] : prefill_)
    if (core::node_of(id) == node) worker.draining = true;
  for (auto& [id, worker] : decode_) {
    if (core::node_of(id) != node) continue;
    worker.draining = true;
    self_->send(worker.handle, messages::drain_worker::build([](schema::DrainWorker::Builder) {}));
  }
}

void conductor_state::peer_down(const caf::actor_addr& who) {
  if (const auto lost = forget(prefill_, who)) return fail_legs_of(*lost, true);
  if (const auto lost = forget(decode_, who)) return fail_legs_of(*lost, false);
  if (forget(shards_, who)) return;
  // A session that died without a word: nobody wants its legs any more.
  std::vector<std::uint64_t> ended;
  for (auto& [id, leg] : legs_) {
    if (leg.session.address() != who) continue;
    if (leg.phase != placed_phase::waiting) tell_workers_to_cancel(leg);
    uncount_decode(leg);
    uncount_prefill(leg);
    ended.push_back(id);
  }
  for (const auto id : ended) legs_.erase(id);
}

void conductor_state::tick() {
  place_waiting();
}

messages::actor_status conductor_state::status(std::uint64_t serial) const {
  return messages::actor_status::build([&](schema::ActorStatus::Builder builder) {
    builder.setSerial(serial);
    builder.setKind(schema::ActorKind::CONDUCTOR);
    builder.setIncarnation(environment_.incarnation.value);
    builder.setRunning(static_cast<std::uint32_t>(legs_.size() - waiting_.size()));
    builder.setWaiting(static_cast<std::uint32_t>(waiting_.size()));
    builder.setBlocksCached(static_cast<std::uint32_t>(index_.block_count()));
    builder.setStepsDone(placements_);
    if (legs_.empty()) {
      std::uint64_t counted = 0;
      for (const auto& [id, worker] : prefill_) counted += worker.placed_tokens;
      for (const auto& [id, worker] : decode_) counted += worker.placed_tokens + worker.placed_sequences;
      if (counted != 0) builder.setAudit("conductor: load is counted although nothing is placed");
    }
  });
}

}  // namespace yolk::actors
