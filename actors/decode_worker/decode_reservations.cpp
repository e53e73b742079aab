// How KV finds its place at the decode worker: reservations, their leases, and the check at the handoff.
#include <algorithm>
#include <caf/all.hpp>

#include "actors/decode_worker/decode_state.hpp"
#include "kvcache/block_header.hpp"

namespace yolk::actors {

namespace schema = messages::schema;
using reason = schema::LegFailed::Reason;

caf::result<messages::reservation_granted> decode_state::reserve(const messages::reserve_blocks& ask,
                                                                 const messages::generate_request& request,
                                                                 const messages::session_actor& session) {
  auto asked = std::make_shared<reservation>(cache_);
  asked->header = header_of(ask.read()->getHeader());
  asked->request = request;
  asked->session = session;
  asked->owner = caf::actor_cast<caf::actor_addr>(self_->current_sender());
  asked->tokens = numbers_of<core::token_id>(request.read()->getTokens());
  asked->root = key_of(request.read()->getRoot());
  const auto needed = environment_->layout.blocks_for(static_cast<std::uint32_t>(asked->tokens.size()) + 1);
  if (asked->tokens.empty() || needed > cache_.block_count() ||
      waiting_.size() >= options_.max_waiting_reservations)
    return caf::make_error(caf::sec::invalid_argument, "reservation: no such room on this decode worker");
  if (!reservations_.emplace(asked->header.leg, asked).second)
    return caf::make_error(caf::sec::invalid_argument, "reservation: this leg has one already");
  if (watched_.insert(asked->owner).second) self_->monitor(self_->current_sender());
  asked->promise = self_->make_response_promise<messages::reservation_granted>();
  auto promise = asked->promise;
  waiting_.push_back(asked);
  grant_waiting();
  return promise;
}

void decode_state::grant_waiting() {
  while (!waiting_.empty() && grant(waiting_.front())) waiting_.pop_front();
}

bool decode_state::grant(const reservation_ptr& asked) {
  asked->blocks.adopt(cache_.match(asked->root, asked->tokens, asked->tokens.size() - 1));
  const auto length = static_cast<std::uint32_t>(asked->tokens.size());
  asked->resident_blocks = asked->blocks.full_block_count();
  if (!asked->blocks.append(length - asked->blocks.token_count())) {
    asked->blocks.release();
    return false;
  }
  asked->phase = reservation_phase::granted;
  asked->end = environment_->clock->now() + options_.lease;
  asked->promise.deliver(
      messages::reservation_granted::build([&](schema::ReservationGranted::Builder granted) {
        write(granted.initHeader(), asked->header, environment_->incarnation);
        granted.setBlocks(as_data(asked->blocks.blocks()));
        granted.setResidentBlocks(asked->resident_blocks);
        write(granted.initRegion(), environment_->transfers->descriptor());
        granted.setLeaseMilliseconds(static_cast<std::uint32_t>(
            std::chrono::duration_cast<std::chrono::milliseconds>(options_.lease).count()));
      }));
  return true;
}

void decode_state::keep(std::uint64_t leg_id) {
  const auto found = reservations_.find(leg_id);
  if (found != reservations_.end() && found->second->phase == reservation_phase::granted)
    found->second->end = environment_->clock->now() + options_.lease;
}

void decode_state::release(std::uint64_t leg_id) {
  const auto found = reservations_.find(leg_id);
  if (found == reservations_.end() || found->second->phase == reservation_phase::checking) return;
  drop(found->second);
  grant_waiting();
  form_step();
}

void decode_state::drop(const reservation_ptr& dropped) {
  if (dropped->phase == reservation_phase::waiting) {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), dropped));
    dropped->promise.deliver(caf::make_error(caf::sec::request_receiver_down, "reservation: released"));
  }
  dropped->blocks.release();
  reservations_.erase(dropped->header.leg);
}

/// Its handoff will not come. The session must hear of it from here: the prefill worker may have reported the
/// leg's end to the conductor, so that nobody else waits for the handoff any more.
void decode_state::lose(const reservation_ptr& lost, const std::string& why) {
  self_->send(lost->session,
              make_leg_failed(lost->header, environment_->incarnation, reason::WORKER_LOST, why));
  drop(lost);
}

/// As above, but a write of its owner may still come: one that was begun within the lease.
void decode_state::rest(const reservation_ptr& lost, const std::string& why) {
  self_->send(lost->session,
              make_leg_failed(lost->header, environment_->incarnation, reason::WORKER_LOST, why));
  lost->phase = reservation_phase::resting;
  lost->end = std::max(lost->end, environment_->clock->now()) + options_.lease_grace;
}

void decode_state::expire() {
  const auto now = environment_->clock->now();
  std::vector<reservation_ptr> over;
  for (const auto& [leg, held] : reservations_)
    if ((held->phase == reservation_phase::granted || held->phase == reservation_phase::resting) &&
        now >= held->end)
      over.push_back(held);
  for (const auto& held : over) {
    if (held->phase == reservation_phase::granted)
      rest(held, "the prefill worker neither handed its KV over nor kept its reservation");
    else
      drop(held);
  }
  if (!over.empty()) grant_waiting();
}

void decode_state::peer_down(const caf::actor_addr& who, const caf::error& why) {
  watched_.erase(who);
  std::vector<reservation_ptr> orphans;
  for (const auto& [leg, held] : reservations_)
    if (held->owner == who && held->phase != reservation_phase::checking) orphans.push_back(held);
  // An actor that ended had ended its engine before: nothing of its writes is on its way any more. One that
  // is only out of reach may hang, wake, and write what its lease still allows.
  const bool may_write = why == caf::exit_reason::remote_link_unreachable;
  for (const auto& held : orphans) {
    if (held->phase == reservation_phase::waiting || !may_write)
      lose(held, "the prefill worker died before it handed its KV over");
    else if (held->phase == reservation_phase::granted)
      rest(held, "the prefill worker was lost before it handed its KV over");
  }
  grant_waiting();
  form_step();
}

void decode_state::take_over(const messages::kv_handoff& handoff, const messages::session_actor& session,
                             const messages::cache_shard_actor& shard) {
  const auto given = handoff.read();
  const auto header = header_of(given->getHeader());
  const auto found = reservations_.find(header.leg);
  if (found == reservations_.end() || found->second->phase != reservation_phase::granted) {
    self_->send(session, make_leg_failed(header, environment_->incarnation, reason::TRANSFER_FAILED,
                                         "the reservation had ended before the KV was handed over"));
    return;
  }
  const auto held = found->second;
  held->phase = reservation_phase::checking;
  held->shard = shard;
  held->pool_cached_tokens = given->getPoolCachedTokens();
  for (auto choice : given->getChoices())
    held->choices.emplace_back(choice.getChoice(), choice.getFirstToken());
  auto expected = numbers_of<std::uint64_t>(given->getChecksums());
  const auto me = caf::actor_cast<caf::actor>(self_);
  const bool posted = hashing_->post([this, me, held, expected = std::move(expected)] {
    const auto layers = environment_->layout.layer_count;
    const auto blocks = held->blocks.blocks();
    bool good = expected.size() == (blocks.size() - held->resident_blocks) * layers;
    for (std::size_t i = held->resident_blocks; good && i < blocks.size(); ++i) {
      const auto sums = kvcache::layer_checksums(block_bytes(*environment_, blocks[i]), environment_->layout);
      good = std::equal(sums.begin(), sums.end(), expected.begin() + (i - held->resident_blocks) * layers);
    }
    caf::anon_send(me, decode_handoff_checked{held->header.leg, good});
  });
  if (!posted) handoff_checked({header.leg, false});
}

void decode_state::handoff_checked(const decode_handoff_checked& checked) {
  const auto found = reservations_.find(checked.leg);
  YOLK_INVARIANT(found != reservations_.end(), checked.leg);
  const auto held = found->second;
  if (held->cancelled) {
    drop(held);
  } else if (!checked.verified) {
    environment_->recorder->transfer_failed(metrics::transfer_path::prefill_to_decode);
    self_->send(held->session,
                make_leg_failed(held->header, environment_->incarnation, reason::TRANSFER_FAILED,
                                "the KV that arrived is not the KV that was sent"));
    drop(held);
  } else {
    join(held);
    if (draining_) drain();
  }
  grant_waiting();
  form_step();
}

void decode_state::join(const reservation_ptr& arrived) {
  const auto request = arrived->request.read();
  const auto first_choice = request->getFirstChoice();
  const auto given_sampling = request->getSampling();
  const auto seeds = given_sampling.getSeeds();
  const auto sampling = sampling_of(given_sampling);
  cache_.insert(arrived->root, arrived->tokens, arrived->blocks.blocks());
  for (const auto& [choice, token] : arrived->choices) {
    if (choice < first_choice || choice - first_choice >= seeds.size()) continue;
    auto sequence = std::make_shared<decode_sequence>(arrived->blocks.fork());
    sequence->header = arrived->header;
    sequence->request = arrived->request;
    sequence->session = arrived->session;
    sequence->shard = arrived->shard;
    sequence->root = arrived->root;
    sequence->choice = choice;
    sequence->tokens = arrived->tokens;
    sequence->prompt_length = request->getPromptLength();
    sequence->leg_length = static_cast<std::uint32_t>(arrived->tokens.size());
    sequence->pool_cached_tokens = arrived->pool_cached_tokens;
    sequence->sampling = sampling;
    auto params = sampling;
    params.seed = seeds[choice - first_choice];
    sequence->sampler =
        std::make_shared<model::sampler>(std::move(params), sequence->tokens, sequence->prompt_length,
                                         environment_->model.end_tokens, environment_->model.vocabulary_size);
    sequence->sampler->accept(token);
    sequence->tokens.push_back(token);
    running_.push_back(std::move(sequence));
  }
  drop(arrived);
}

}  // namespace yolk::actors
