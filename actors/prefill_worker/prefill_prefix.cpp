// How a cached prefix comes from a cache shard into the prefill worker, and what the worker tells of itself.
#include <algorithm>
#include <caf/all.hpp>

#include "actors/prefill_worker/prefill_state.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

void prefill_state::set_conductor(const messages::conductor_reports& conductor) {
  conductor_ = conductor;
  report();
}

void prefill_state::look_up(const leg_ptr& leg) {
  const auto ask = messages::lookup_prefix::build([&](schema::LookupPrefix::Builder builder) {
    write(builder.initHeader(), leg->header, environment_->incarnation);
    builder.setSkipTokens(leg->cached_tokens);
    builder.setMaxTokens(static_cast<std::uint32_t>(leg->tokens.size()) - 1);
  });
  self_->request(leg->source, options_.lookup_timeout, ask, leg->request)
      .then([this, leg](const messages::prefix_pinned& pinned) { pull(leg, pinned); },
            // A shard that does not answer is a miss.
            [this, leg](const caf::error&) { go_on_without(leg); });
}

void prefill_state::want_queued() {
  if (!options_.look_ahead) return;
  const auto now = environment_->clock->now();
  std::uint32_t count = 0;
  for (const auto& leg : order_) {
    if (leg->phase() != leg_phase::queued) continue;
    if (++count > options_.max_wanted) return;
    if (!leg->source || leg->pool_hint_tokens == 0 || now < leg->want_again) continue;
    leg->wanted = true;
    leg->want_again = now + options_.want_interval;
    const auto want = messages::want_prefix::build([&](schema::WantPrefix::Builder builder) {
      write(builder.initHeader(), leg->header, environment_->incarnation);
      builder.setMaxTokens(static_cast<std::uint32_t>(leg->tokens.size()) - 1);
    });
    self_->send(leg->source, want, leg->request);
  }
}

void prefill_state::unwant(const leg_ptr& leg) {
  if (!std::exchange(leg->wanted, false)) return;
  leg->want_again = {};
  self_->send(leg->source, messages::unwant_prefix::build([&](schema::UnwantPrefix::Builder builder) {
                write(builder.initHeader(), leg->header, environment_->incarnation);
              }));
}

void prefill_state::go_on_without(const leg_ptr& leg) {
  if (leg->phase() == leg_phase::ended) return;
  get_blocks(leg);
  start_legs();
}

void prefill_state::unpin(const leg_ptr& leg, std::uint64_t pin) {
  if (pin == 0) return;
  self_->send(leg->source, messages::unpin_prefix::build([&](auto builder) { builder.setPin(pin); }));
}

void prefill_state::pull(const leg_ptr& leg, const messages::prefix_pinned& pinned) {
  const auto given = pinned.read();
  if (leg->phase() == leg_phase::ended) return unpin(leg, given->getPin());
  const auto slots = numbers_of<core::block_index>(given->getSlots());
  const auto headers = given->getHeaders();  // once: each call counts the whole list as traversed
  const auto count = static_cast<std::uint32_t>(slots.size());
  // Until now it was the index's estimate; what is missing there, or was lost, is offered again.
  if (leg->source == leg->keeper)
    leg->pool_cached_tokens = count > 0 ? given->getFirstToken() + count * block_tokens() : 0;
  const bool usable = count > 0 && headers.size() == count && given->getFirstToken() == leg->cached_tokens &&
                      leg->cached_tokens + count * block_tokens() < leg->tokens.size();
  auto blocks = usable ? cache_.allocate(count) : std::nullopt;
  if (!blocks) {
    unpin(leg, given->getPin());
    go_on_without(leg);
    return;
  }
  auto pull = std::make_unique<pending_pull>();
  pull->pin = given->getPin();
  pull->blocks = *blocks;
  pull->first_token = given->getFirstToken();
  std::vector<transport::copy_range> ranges;
  const auto bytes = environment_->layout.block_bytes();
  for (std::uint32_t i = 0; i < count; ++i) {
    checksums_[pull->blocks[i]].clear();
    pull->headers.push_back(block_header_of(headers[i]));
    ranges.push_back({pull->blocks[i] * bytes, slots[i] * bytes, bytes});
  }
  const auto source = region_of(given->getRegion());
  if (sources_.emplace(leg->source.address(), source).second) self_->monitor(leg->source);
  leg->in_use += 1;  // until pull_done
  auto& kept = *pulls_.emplace(leg->header.leg, std::move(pull)).first->second;

  // Engine's thread, then the hashing thread, then this actor. What fails a check is a miss, never an answer.
  const auto me = caf::actor_cast<caf::actor>(self_);
  auto verify = [this, me, leg, &kept] {
    auto parent =
        kept.first_token == 0
            ? leg->root
            : kvcache::keys_of(leg->root, std::span(leg->tokens).first(kept.first_token), block_tokens())
                  .back();
    bool good = true;
    for (std::size_t i = 0; good && i < kept.blocks.size(); ++i) {
      const auto first = kept.first_token + static_cast<std::uint32_t>(i) * block_tokens();
      good = bool(kvcache::verify_block(kept.headers[i], parent,
                                        std::span(leg->tokens).subspan(first, block_tokens()), first,
                                        block_bytes(*environment_, kept.blocks[i]), environment_->layout)) &&
             kept.headers[i].key_rotation_base == environment_->model.rope_base;
      parent = kept.headers[i].key;
    }
    caf::anon_send(me, prefill_pull_done{leg->header.leg, good});
  };
  environment_->transfers->get(
      source, std::move(ranges), options_.transfer_deadline,
      [this, me, leg,
       verify = std::move(verify)](const transport::result<transport::transfer_report>& outcome) {
        if (outcome) {
          environment_->recorder->transfer(metrics::transfer_path::shard_to_prefill, outcome->bytes,
                                           outcome->elapsed);
          if (hashing_->post(verify)) return;
        } else {
          environment_->recorder->transfer_failed(metrics::transfer_path::shard_to_prefill);
        }
        caf::anon_send(me, prefill_pull_done{leg->header.leg, false});
      });
}

void prefill_state::pull_done(const prefill_pull_done& done) {
  const auto leg = legs_.at(done.leg);
  const auto pull = std::move(pulls_.at(done.leg));
  pulls_.erase(done.leg);
  leg->in_use -= 1;
  unpin(leg, pull->pin);
  if (leg->phase() == leg_phase::ended || !done.verified) {
    leg->pool_cached_tokens = 0;
    for (const auto block : pull->blocks) cache_.release(block);
    if (leg->phase() == leg_phase::ended) return release_if_unused(leg);
  } else {
    for (std::size_t i = 0; i < pull->blocks.size(); ++i)
      checksums_[pull->blocks[i]] = pull->headers[i].layer_checksums;
    leg->blocks.insert(leg->blocks.end(), pull->blocks.begin(), pull->blocks.end());
    leg->cached_tokens += static_cast<std::uint32_t>(pull->blocks.size()) * block_tokens();
    if (leg->source == leg->keeper) leg->pool_cached_tokens = leg->cached_tokens;
    cache_.insert(leg->root, std::span(leg->tokens).first(leg->cached_tokens), leg->blocks);
    send_cache_events();
  }
  get_blocks(leg);
  start_legs();
}

void prefill_state::send_cache_events() {
  if (!conductor_) return;
  if (const auto events = cache_report_.take()) self_->send(conductor_, *events);
}

messages::cache_snapshot prefill_state::snapshot() const {
  return cache_report_.snapshot(cache_.snapshot());
}

void prefill_state::tick() {
  send_cache_events();
  report();
  start_legs();
}

void prefill_state::report() {
  const auto used = cache_.block_count() - cache_.available_count();
  environment_->recorder->kv_usage("device", "prefill", environment_->id.value,
                                   static_cast<double>(used) / std::max(1u, cache_.block_count()));
  if (!conductor_) return;
  self_->send(conductor_, messages::worker_load::build([&](schema::WorkerLoad::Builder builder) {
                builder.setWorker(environment_->id.value);
                builder.setIncarnation(environment_->incarnation.value);
                builder.setRunningSequences(active_count());
                builder.setWaitingSequences(static_cast<std::uint32_t>(order_.size()) - active_count());
                builder.setFreeTokens(std::uint64_t{cache_.available_count()} * block_tokens());
              }));
}

messages::actor_status prefill_state::status(std::uint64_t serial) const {
  const bool at_rest = legs_.empty() && offers_.empty() && !step_;
  return messages::actor_status::build([&](schema::ActorStatus::Builder builder) {
    builder.setSerial(serial);
    builder.setKind(schema::ActorKind::PREFILL_WORKER);
    write_worker(builder, *environment_, cache_);
    builder.setRunning(active_count());
    builder.setWaiting(static_cast<std::uint32_t>(order_.size()) - active_count());
    builder.setHitTokens(hit_tokens_);
    builder.setMissTokens(miss_tokens_);
    builder.setStepsDone(steps_done_);
    builder.setTokensDone(tokens_done_);
    write_progress(builder, step_ != nullptr, environment_->clock->now() - last_progress_);
    if (at_rest) builder.setAudit(cache_.audit());
  });
}

}  // namespace yolk::actors
