// How a leg leaves the prefill worker, and what becomes of its blocks.
#include <algorithm>
#include <caf/all.hpp>

#include "actors/prefill_worker/prefill_state.hpp"

namespace yolk::actors {

namespace schema = messages::schema;
using reason = schema::LegFailed::Reason;

void prefill_state::hand_over(const leg_ptr& leg) {
  const auto handoff = messages::kv_handoff::build([&](schema::KvHandoff::Builder builder) {
    write(builder.initHeader(), leg->header, environment_->incarnation);
    auto choices = builder.initChoices(static_cast<unsigned>(leg->going_on.size()));
    for (unsigned i = 0; i < choices.size(); ++i) {
      choices[i].setChoice(leg->going_on[i].first);
      choices[i].setFirstToken(leg->going_on[i].second);
    }
    builder.setChecksums(as_data(leg->push->checksums()));
    builder.setPoolCachedTokens(leg->pool_cached_tokens);
  });
  self_->send(leg->decode, handoff, leg->session, leg->keeper);
  leg->reserved = false;  // the decode worker's own from here on
}

void prefill_state::keep_in_cache(const leg_ptr& leg) {
  cache_.insert(leg->root, leg->tokens, leg->blocks);
  send_cache_events();
}

void prefill_state::offer(const leg_ptr& leg) {
  const auto full = static_cast<std::uint32_t>(leg->tokens.size()) / block_tokens();
  const auto known = std::min(leg->pool_cached_tokens / block_tokens(), full);
  if (!leg->keeper || known == full) return;
  auto offer = make_offer(*environment_, leg->root, leg->tokens, leg->blocks, known, full);
  // What was resident at the decode worker was never hashed for a push.
  for (std::size_t i = 0; i < offer.blocks.size(); ++i)
    offer.headers[i].layer_checksums = checksums_[offer.blocks[i]];
  offers_.open(std::move(offer), leg->keeper, caf::actor_cast<caf::actor>(self_));
}

void prefill_state::send_offer(std::uint64_t number) {
  const auto* offer = offers_.find(number);
  if (offer == nullptr) return;
  for (std::size_t i = 0; i < offer->blocks.size(); ++i)
    checksums_[offer->blocks[i]] = offer->headers[i].layer_checksums;
  self_->request(offer->shard, options_.offer_timeout, offer_message(*offer, number, *environment_))
      .then([this, number](const messages::offer_done&) { offer_answered(number); },
            [this, number](const caf::error&) { offer_answered(number); });
}

void prefill_state::offer_answered(std::uint64_t number) {
  offers_.close(number);
  send_cache_events();
  start_legs();
}

void prefill_state::fail(const leg_ptr& leg, reason why, const std::string& text) {
  self_->send(leg->session, make_leg_failed(leg->header, environment_->incarnation, why, text));
  end(leg);
}

void prefill_state::cancel(std::uint64_t leg_id) {
  const auto found = legs_.find(leg_id);
  if (found == legs_.end() || found->second->phase() == leg_phase::ended) return;
  end(found->second);
  start_legs();
}

void prefill_state::end(const leg_ptr& leg) {
  const bool computing = leg->phase() == leg_phase::computing;
  const bool in_step = step_ && std::any_of(step_->parts.begin(), step_->parts.end(),
                                            [&](const auto& p) { return p.leg == leg; });
  leg->enter(leg_phase::ended);
  unwant(leg);
  order_.erase(std::find(order_.begin(), order_.end(), leg));
  if (computing && !in_step && leg->push) leg->push->close();  // else step_done closes it
  if (conductor_) {
    self_->send(conductor_, messages::prefill_ended::build([&](schema::PrefillEnded::Builder builder) {
                  write(builder.initHeader(), leg->header, environment_->incarnation);
                  builder.setWorker(environment_->id.value);
                  builder.setComputedTokens(leg->computed_tokens -
                                            std::min(leg->computed_tokens, leg->cached_tokens));
                  builder.setComputeSeconds(leg->compute_seconds);
                }));
  }
  release_if_unused(leg);
}

void prefill_state::release_if_unused(const leg_ptr& leg) {
  if (leg->in_use > 0) return;
  if (leg->reserved) {
    // Only now: none of our writes is on its way to those blocks any more.
    self_->send(leg->decode,
                messages::release_reservation::build([&](schema::ReleaseReservation::Builder builder) {
                  write(builder.initHeader(), leg->header, environment_->incarnation);
                }));
    leg->reserved = false;
  }
  for (const auto block : leg->blocks) cache_.release(block);
  leg->blocks.clear();
  legs_.erase(leg->header.leg);
  send_cache_events();
}

void prefill_state::peer_down(const caf::actor_addr& who) {
  if (const auto source = sources_.extract(who)) environment_->transfers->forget(source.mapped());
  watched_.erase(who);
  const auto all = order_;
  for (const auto& leg : all)
    if (leg->decode.address() == who && leg->phase() != leg_phase::ended) {
      leg->reserved = false;
      if (!leg->remote.worker_address.empty()) environment_->transfers->forget(leg->remote);
      fail(leg, reason::WORKER_LOST, "the decode worker died");
    }
  start_legs();
}

}  // namespace yolk::actors
