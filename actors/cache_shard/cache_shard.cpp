#include "actors/cache_shard/cache_shard.hpp"

#include <caf/all.hpp>

#include "actors/cache_shard/shard_state.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

namespace {

constexpr auto tick_interval = std::chrono::milliseconds(100);

struct holder {
  std::unique_ptr<shard_state> state;
  static inline const char* name = "cache_shard";
};

shard_internal_actor::behavior_type run(shard_internal_actor::stateful_pointer<holder> self,
                                        const shard_options& options,
                                        const std::shared_ptr<shard_environment>& environment) {
  self->state.state = std::make_unique<shard_state>(self, options, environment);
  auto* state = self->state.state.get();
  self->set_down_handler([state](const caf::down_msg& down) { state->peer_down(down.source); });
  self->delayed_send(self, tick_interval, messages::tick_atom::value);
  return {
      [state](const messages::status_request& request) { return state->status(request.read()->getSerial()); },
      [state](const messages::lookup_prefix& ask, const messages::generate_request& request) {
        return state->look_up(ask, request);
      },
      [state](const messages::unpin_prefix& unpin) { state->unpin(unpin.read()->getPin()); },
      [state](const messages::want_prefix& want, const messages::generate_request& request) {
        state->want(want, request);
      },
      [state](const messages::unwant_prefix& over) {
        state->forget_want(over.read()->getHeader().getLegId());
      },
      [state](const messages::offer_blocks& offer) { return state->take_offer(offer); },
      [state](const messages::snapshot_request&) { return state->snapshot(); },
      [state](const messages::peers_changed&, const messages::conductor_reports& conductor) {
        state->set_peers(conductor);
      },
      [state](const shard_offer_arrived& arrived) { state->offer_arrived(arrived); },
      [](const shard_call& call) { call.run(); },
      [self, state](messages::tick_atom) {
        state->tick();
        self->delayed_send(self, tick_interval, messages::tick_atom::value);
      },
  };
}

}  // namespace

messages::cache_shard_actor spawn_cache_shard(caf::actor_system& system, const shard_options& options,
                                              std::shared_ptr<shard_environment> environment) {
  return system.spawn(run, options, std::move(environment));
}

shard_state::shard_state(shard_internal_actor::pointer self, const shard_options& options,
                         std::shared_ptr<shard_environment> environment)
    : self_(self),
      options_(options),
      environment_(std::move(environment)),
      arena_({.byte_limit = environment_->byte_limit,
              .block_bytes = environment_->layout.block_bytes(),
              .block_tokens = environment_->layout.block_tokens,
              .order = options_.eviction}),
      cache_report_(environment_->id, environment_->incarnation),
      hashing_(std::make_unique<core::background_thread>("shard-hash", environment_->hashing)) {
  arena_.set_listener([this](const kvcache::cache_event& event) {
    if (event.what == kvcache::cache_event::kind::stored)
      stored_.insert(event.key);
    else
      stored_.erase(event.key);
    // A block is held as long as either tier has it.
    if (!ssd_ || !ssd_->log().holds(event.key)) cache_report_.note(event);
  });
  if (environment_->ssd) {
    const auto me = caf::actor_cast<caf::actor>(self_);
    ssd_ = std::make_unique<ssd_tier>(options_, *environment_, arena_, [me](std::function<void()> function) {
      caf::anon_send(me, shard_call{std::move(function)});
    });
    ssd_->set_listener([this](const kvcache::cache_event& event) {
      if (!stored_.contains(event.key)) cache_report_.note(event);
    });
  }
  look_ahead_ = std::make_unique<look_ahead>(options_, *environment_, arena_, ssd_.get());
}

shard_state::~shard_state() {
  // Threads end before what they touch does.
  hashing_->stop();
  ssd_.reset();
  environment_->transfers.reset();
}

caf::result<messages::prefix_pinned> shard_state::look_up(const messages::lookup_prefix& ask,
                                                          const messages::generate_request& request) {
  auto promise = self_->make_response_promise<messages::prefix_pinned>();
  const auto reply = promise;
  answer_lookup(ask, request, std::move(promise), environment_->clock->now() + options_.load_limit);
  return reply;
}

void shard_state::answer_lookup(const messages::lookup_prefix& ask, const messages::generate_request& request,
                                lookup_promise promise, core::time_point end) {
  if (ssd_ && environment_->clock->now() < end) {
    const auto tokens = numbers_of<core::token_id>(request.read()->getTokens());
    const ssd_tier::wanted prompt{.root = key_of(request.read()->getRoot()),
                                  .tokens = tokens,
                                  .max_tokens = ask.read()->getMaxTokens(),
                                  .skip_tokens = ask.read()->getSkipTokens()};
    const auto ended = [this, ask, request, promise, end](bool again) mutable {
      if (again) return answer_lookup(ask, request, promise, end);
      promise.deliver(pin_prefix(ask, request));
      retry_parked();
      send_events();
    };
    if (ssd_->load(prompt, ended)) return;
  }
  promise.deliver(pin_prefix(ask, request));
}

messages::prefix_pinned shard_state::pin_prefix(const messages::lookup_prefix& ask,
                                                const messages::generate_request& request) {
  const auto wanted = ask.read();
  const auto tokens = numbers_of<core::token_id>(request.read()->getTokens());
  const auto lease = kvcache::arena_lease{environment_->id, environment_->clock->now() + options_.pin_lease};
  const auto found = arena_.match(key_of(request.read()->getRoot()), tokens, wanted->getMaxTokens(), lease);
  const auto skip =
      std::min<std::size_t>(wanted->getSkipTokens() / environment_->layout.block_tokens, found.blocks.size());
  const auto count = static_cast<unsigned>(found.blocks.size() - skip);
  if (count == 0 && found.id.value != 0) arena_.unpin(found.id);
  return messages::prefix_pinned::build([&](schema::PrefixPinned::Builder pinned) {
    write(pinned.initHeader(), header_of(wanted->getHeader()), environment_->incarnation);
    if (count == 0) return;
    pinned.setPin(found.id.value);
    pinned.setFirstToken(static_cast<std::uint32_t>(skip) * environment_->layout.block_tokens);
    std::vector<core::block_index> slots;
    auto headers = pinned.initHeaders(count);
    for (unsigned i = 0; i < count; ++i) {
      slots.push_back(found.blocks[skip + i].slot.slot);
      write(headers[i], *found.blocks[skip + i].header);
    }
    pinned.setSlots(as_data(slots));
    write(pinned.initRegion(), environment_->transfers->descriptor());
  });
}

void shard_state::unpin(std::uint64_t pin) {
  arena_.unpin(kvcache::pin_id{pin});
}

void shard_state::want(const messages::want_prefix& want, const messages::generate_request& request) {
  const auto given = request.read();
  auto tokens = numbers_of<core::token_id>(given->getTokens());
  tokens.resize(std::min<std::size_t>(tokens.size(), want.read()->getMaxTokens()));
  look_ahead_->want(want.read()->getHeader().getLegId(),
                    {.root = key_of(given->getRoot()), .tokens = std::move(tokens)});
  send_events();
}

void shard_state::forget_want(std::uint64_t leg) {
  look_ahead_->forget(leg);
}

messages::offer_done shard_state::answer(std::uint64_t offer, std::uint32_t stored) {
  return messages::offer_done::build([&](schema::OfferDone::Builder done) {
    done.setOffer(offer);
    done.setStoredBlocks(stored);
  });
}

caf::result<messages::offer_done> shard_state::take_offer(const messages::offer_blocks& offer) {
  if (offers_.size() + parked_.size() >= options_.max_offers) return answer(offer.read()->getOffer(), 0);
  const auto worker = self_->current_sender();
  if (sources_.emplace(caf::actor_cast<caf::actor_addr>(worker), region_of(offer.read()->getRegion())).second)
    self_->monitor(worker);
  auto promise = self_->make_response_promise<messages::offer_done>();
  const auto reply = promise;
  if (!try_take(offer, promise))
    parked_.push_back({offer, promise, environment_->clock->now() + options_.orphan_wait});
  return reply;
}

void shard_state::retry_parked() {
  const auto now = environment_->clock->now();
  auto waiting = std::move(parked_);
  parked_.clear();
  for (auto& parked : waiting) {
    if (try_take(parked.offer, parked.promise)) continue;
    if (now < parked.end)
      parked_.push_back(std::move(parked));
    else
      parked.promise.deliver(answer(parked.offer.read()->getOffer(), 0));
  }
}

bool shard_state::try_take(const messages::offer_blocks& offer,
                           caf::typed_response_promise<messages::offer_done>& promise) {
  const auto given = offer.read();
  const auto blocks = numbers_of<core::block_index>(given->getBlocks());
  auto open = std::make_shared<open_offer>();
  open->offer = given->getOffer();
  open->root = key_of(given->getRoot());
  std::vector<core::block_index> sources;
  const auto headers = given->getHeaders();  // once: each call counts the whole list as traversed
  for (unsigned i = 0; i < headers.size() && i < blocks.size(); ++i) {
    auto header = block_header_of(headers[i]);
    if (stored_.contains(header.key)) continue;
    sources.push_back(blocks[i]);
    open->headers.push_back(std::move(header));
  }
  const auto decline = [&] {
    promise.deliver(answer(given->getOffer(), 0));
    return true;
  };
  if (sources.empty()) return decline();
  // A chain whose beginning is not cached could never be found.
  if (open->headers.front().parent != open->root && !stored_.contains(open->headers.front().parent))
    return false;
  // Of a chain longer than the arena the front is the part that others begin with.
  const auto fitting = std::min<std::size_t>(sources.size(), arena_.slot_count());
  sources.resize(fitting);
  open->headers.resize(fitting);
  auto slots = arena_.reserve(
      static_cast<std::uint32_t>(fitting),
      {core::worker_id{given->getWorker()}, environment_->clock->now() + options_.reservation_lease});
  if (!slots) return decline();
  open->slots = std::move(*slots);
  open->promise = promise;
  const auto number = next_offer_++;
  offers_.emplace(number, open);

  const auto bytes = environment_->layout.block_bytes();
  std::vector<transport::copy_range> ranges;
  for (std::size_t i = 0; i < fitting; ++i)
    ranges.push_back({arena_.slot_offset(open->slots[i].slot), sources[i] * bytes, bytes});
  const auto me = caf::actor_cast<caf::actor>(self_);
  environment_->transfers->get(
      region_of(given->getRegion()), std::move(ranges), options_.transfer_deadline,
      [this, me, open, number](const transport::result<transport::transfer_report>& outcome) {
        if (outcome) {
          environment_->recorder->transfer(metrics::transfer_path::worker_to_shard, outcome->bytes,
                                           outcome->elapsed);
          if (hashing_->post([this, me, open, number] {
                caf::anon_send(me, shard_offer_arrived{number, count_verified(*open)});
              }))
            return;
        } else {
          environment_->recorder->transfer_failed(metrics::transfer_path::worker_to_shard);
        }
        caf::anon_send(me, shard_offer_arrived{number, 0});
      });
  return true;
}

std::uint32_t shard_state::count_verified(const open_offer& offer) const {
  const auto bytes = environment_->layout.block_bytes();
  const auto region = environment_->transfers->region();
  for (std::uint32_t i = 0; i < offer.slots.size(); ++i) {
    const auto& header = offer.headers[i];
    if (!kvcache::verify_block(header, header.parent, header.tokens, header.first_position,
                               region.subspan(offer.slots[i].slot * bytes, bytes), environment_->layout))
      return i;
  }
  return static_cast<std::uint32_t>(offer.slots.size());
}

void shard_state::offer_arrived(const shard_offer_arrived& arrived) {
  const auto open = offers_.at(arrived.number);
  offers_.erase(arrived.number);
  std::vector<kvcache::block_key> stored;
  for (std::uint32_t i = 0; i < open->slots.size(); ++i) {
    if (i >= arrived.good_blocks) {
      arena_.abandon(open->slots[i]);
      continue;
    }
    const auto key = open->headers[i].key;
    if (arena_.commit(open->slots[i], std::move(open->headers[i]), open->root) ==
        kvcache::commit_outcome::stored)
      stored.push_back(key);
  }
  ++offers_done_;
  open->promise.deliver(answer(open->offer, static_cast<std::uint32_t>(stored.size())));
  if (ssd_) ssd_->stored(stored);
  retry_parked();
  send_events();
}

void shard_state::set_peers(const messages::conductor_reports& conductor) {
  conductor_ = conductor;
}

void shard_state::peer_down(const caf::actor_addr& who) {
  if (const auto source = sources_.extract(who)) environment_->transfers->forget(source.mapped());
}

void shard_state::tick() {
  arena_.expire(environment_->clock->now());
  if (ssd_) ssd_->tick();
  look_ahead_->tick();
  retry_parked();
  send_events();
  const auto& cache = arena_.cache();
  environment_->recorder->kv_usage(
      "dram", "cache", environment_->id.value,
      static_cast<double>(cache.cached_count()) / std::max(1u, cache.block_count()));
  environment_->recorder->wanted_blocks(look_ahead_->pinned_blocks());
}

void shard_state::send_events() {
  if (!conductor_) return;
  if (const auto events = cache_report_.take()) self_->send(conductor_, *events);
}

messages::cache_snapshot shard_state::snapshot() const {
  auto keys = arena_.snapshot();
  if (ssd_)
    for (const auto& key : ssd_->log().snapshot())
      if (!stored_.contains(key)) keys.push_back(key);
  return cache_report_.snapshot(keys);
}

messages::actor_status shard_state::status(std::uint64_t serial) const {
  const auto transfers = environment_->transfers->counters();
  const auto& counters = arena_.counters();
  return messages::actor_status::build([&](schema::ActorStatus::Builder builder) {
    builder.setSerial(serial);
    builder.setKind(schema::ActorKind::CACHE_SHARD);
    builder.setId(environment_->id.value);
    builder.setIncarnation(environment_->incarnation.value);
    builder.setRunning(static_cast<std::uint32_t>(offers_.size()) + (ssd_ ? ssd_->load_count() : 0));
    builder.setBlocksTotal(arena_.slot_count());
    builder.setBlocksUsed(arena_.reserved_count());
    builder.setBlocksCached(arena_.cache().cached_count());
    builder.setBlockBytes(environment_->layout.block_bytes());
    builder.setHitTokens(counters.hit_tokens);
    builder.setMissTokens(counters.miss_tokens);
    builder.setEvictedBlocks(counters.evicted_blocks);
    builder.setStepsDone(offers_done_);
    builder.setTransfers(transfers.transfers);
    builder.setTransferBytes(transfers.put_bytes + transfers.get_bytes);
    builder.setTransferFailures(transfers.failures);
    if (!offers_.empty() || (ssd_ && !ssd_->idle())) return;
    builder.setAudit(arena_.audit());
    if (ssd_ && builder.getAudit().size() == 0) builder.setAudit(ssd_->log().audit());
  });
}

}  // namespace yolk::actors
