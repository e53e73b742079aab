#include "actors/prefill_worker/prefill_state.hpp"

#include <algorithm>
#include <caf/all.hpp>

#include "scheduling/batching.hpp"

namespace yolk::actors {

namespace schema = messages::schema;
using reason = schema::LegFailed::Reason;

prefill_state::prefill_state(prefill_internal_actor::pointer self, const prefill_options& options,
                             std::shared_ptr<worker_environment> environment)
    : self_(self),
      options_(options),
      environment_(std::move(environment)),
      cache_(environment_->block_count, environment_->layout.block_tokens),
      checksums_(environment_->block_count),
      cache_report_(environment_->id, environment_->incarnation),
      last_progress_(environment_->clock->now()),
      hashing_(std::make_unique<core::background_thread>("prefill-hash", environment_->hashing)),
      offers_(*environment_, cache_, *hashing_) {
  cache_.set_listener([this](const kvcache::cache_event& event) { cache_report_.note(event); });
}

prefill_state::~prefill_state() {
  // Threads end before what they touch does: first no step can start a push any more, then nobody hashes a
  // block, then no transfer can write to one.
  environment_->executor.reset();
  hashing_->stop();
  environment_->transfers.reset();
}

void prefill_state::take_order(const messages::prefill_order& order,
                               const messages::generate_request& request,
                               const messages::session_actor& session,
                               const messages::decode_worker_actor& decode,
                               const messages::cache_shard_actor& source,
                               const messages::cache_shard_actor& keeper) {
  const auto given = request.read();
  auto leg = std::make_shared<prefill_leg>(header_of(given->getHeader()), request);
  leg->session = session;
  leg->decode = decode;
  leg->source = source;
  leg->keeper = keeper;
  leg->root = key_of(given->getRoot());
  leg->tokens = numbers_of<core::token_id>(given->getTokens());
  leg->prompt_length = given->getPromptLength();
  leg->first_choice = given->getFirstChoice();
  leg->sampling = sampling_of(given->getSampling());
  for (auto seed : given->getSampling().getSeeds()) leg->seeds.push_back(seed);
  leg->arrived = environment_->clock->now();
  leg->pool_hint_tokens = order.read()->getPoolCachedTokens();
  leg->pool_cached_tokens = order.read()->getKeptTokens();
  if (!legs_.emplace(leg->header.leg, leg).second) return;
  order_.push_back(leg);
  if (leg->tokens.empty() || leg->seeds.empty() ||
      environment_->layout.blocks_for(static_cast<std::uint32_t>(leg->tokens.size())) > cache_.block_count())
    return fail(leg, reason::INTERNAL, "the prompt does not fit into the prefill worker's blocks");
  if (order_.size() > options_.max_queued)
    return fail(leg, reason::UNAVAILABLE, "the prefill worker's queue is full");
  if (watched_.insert(decode.address()).second) self_->monitor(decode);
  start_legs();
}

std::uint32_t prefill_state::active_count() const {
  return static_cast<std::uint32_t>(std::count_if(
      order_.begin(), order_.end(), [](const leg_ptr& leg) { return leg->phase() != leg_phase::queued; }));
}

void prefill_state::start_legs() {
  // prepare() may end legs, so the list is walked by a copy.
  const auto waiting = order_;
  for (const auto& leg : waiting) {
    if (active_count() >= options_.max_active) break;
    if (leg->phase() != leg_phase::queued) continue;
    prepare(leg);
    // In order of arrival: when the blocks do not suffice for this one, nobody overtakes it.
    if (leg->phase() == leg_phase::queued) break;
  }
  want_queued();
  form_step();
}

void prefill_state::prepare(const leg_ptr& leg) {
  leg->enter(leg_phase::preparing);
  for (const auto& hit : cache_.match(leg->root, leg->tokens, leg->tokens.size() - 1))
    leg->blocks.push_back(hit.block);
  leg->cached_tokens = static_cast<std::uint32_t>(leg->blocks.size()) * block_tokens();
  if (leg->source && leg->pool_hint_tokens > leg->cached_tokens)
    look_up(leg);
  else
    get_blocks(leg);
}

void prefill_state::get_blocks(const leg_ptr& leg) {
  const auto needed = environment_->layout.blocks_for(static_cast<std::uint32_t>(leg->tokens.size()));
  const auto missing = needed - static_cast<std::uint32_t>(leg->blocks.size());
  auto fresh = cache_.allocate(missing);
  if (!fresh) {
    // Nothing is held while waiting, so that the oldest leg can always get all it needs.
    for (const auto block : leg->blocks) cache_.release(block);
    leg->blocks.clear();
    leg->cached_tokens = 0;
    leg->enter(leg_phase::queued);
    return;
  }
  for (const auto block : *fresh) checksums_[block].clear();
  leg->blocks.insert(leg->blocks.end(), fresh->begin(), fresh->end());
  leg->computed_tokens = leg->cached_tokens;
  unwant(leg);
  reserve(leg);
}

void prefill_state::reserve(const leg_ptr& leg) {
  leg->reserved = true;
  const auto ask = messages::reserve_blocks::build([&](schema::ReserveBlocks::Builder builder) {
    write(builder.initHeader(), leg->header, environment_->incarnation);
  });
  self_->request(leg->decode, options_.reserve_timeout, ask, leg->request, leg->session)
      .then([this, leg](const messages::reservation_granted& grant) { granted(leg, grant); },
            [this, leg](const caf::error& error) {
              if (leg->phase() == leg_phase::ended) return;
              fail(leg, reason::WORKER_LOST,
                   "no blocks on the decode worker: " + self_->system().render(error));
            });
}

void prefill_state::granted(const leg_ptr& leg, const messages::reservation_granted& grant) {
  if (leg->phase() == leg_phase::ended) return;  // cancelled meanwhile; end() told the decode worker
  const auto given = grant.read();
  leg->remote_blocks = numbers_of<core::block_index>(given->getBlocks());
  leg->resident_blocks = given->getResidentBlocks();
  leg->remote = region_of(given->getRegion());
  leg->lease = std::chrono::milliseconds(given->getLeaseMilliseconds());
  leg->lease_end = environment_->clock->now() + leg->lease;
  if (leg->remote_blocks.size() != leg->blocks.size() || leg->resident_blocks > leg->blocks.size())
    return fail(leg, reason::INTERNAL,
                "the decode worker granted another number of blocks than were asked for");

  push_route route{environment_->layout, leg->blocks, leg->remote_blocks,
                   leg->resident_blocks, leg->remote, options_.transfer_deadline};
  const auto me = caf::actor_cast<caf::actor>(self_);
  leg->push = std::make_shared<layer_push>(std::move(route), *environment_->transfers, environment_->recorder,
                                           [me, id = leg->header.leg](bool all_arrived) {
                                             caf::anon_send(me, prefill_push_done{id, all_arrived});
                                           });
  leg->in_use += 1;  // until push_done
  const auto cached_blocks = leg->cached_tokens / block_tokens();
  for (std::uint32_t block = 0; block < cached_blocks; ++block)
    if (const auto& known = checksums_[leg->blocks[block]]; !known.empty())
      leg->push->enter_checksums(block, known);
  // A long cached prefix is hashed (where not known) and queued layer by layer; the engine's thread moves it.
  for (std::uint32_t layer = 0; layer < environment_->layout.layer_count; ++layer)
    leg->push->push(layer, 0, cached_blocks);

  for (std::size_t choice = 0; choice < leg->seeds.size(); ++choice) {
    auto params = leg->sampling;
    params.seed = leg->seeds[choice];
    leg->samplers.push_back(std::make_shared<model::sampler>(
        std::move(params), leg->tokens, leg->prompt_length, environment_->model.end_tokens,
        environment_->model.vocabulary_size));
  }
  leg->enter(leg_phase::computing);
  form_step();
}

void prefill_state::form_step() {
  if (step_) return;
  std::vector<leg_ptr> ready;
  std::vector<scheduling::pending_prefill> pending;
  for (const auto& leg : order_) {
    if (leg->phase() != leg_phase::computing) continue;
    ready.push_back(leg);
    pending.push_back({static_cast<std::uint32_t>(leg->tokens.size()) - leg->computed_tokens});
  }
  if (ready.empty()) return;
  auto step = std::make_shared<open_step>();
  for (const auto& chunk :
       scheduling::form_prefill_batch(pending, options_.chunk_tokens, options_.max_active)) {
    const auto& leg = ready[chunk.index];
    if (leg->computed_tokens == leg->cached_tokens)
      environment_->recorder->queue_time(environment_->clock->now() - leg->arrived);
    leg->in_use += 1;
    step->parts.push_back({leg, chunk.token_count});
  }
  step_ = step;
  const auto me = caf::actor_cast<caf::actor>(self_);
  environment_->executor->submit(build_step(*step), layer_pusher(*step), [me](model::step_result result) {
    caf::anon_send(me, prefill_step_done{std::make_shared<const model::step_result>(std::move(result))});
  });
}

model::step prefill_state::build_step(const open_step& parts) const {
  model::step work;
  work.kind = gpu::step_class::prefill;
  for (const auto& [leg, count] : parts.parts) {
    model::step_slice slice;
    const auto begin = leg->tokens.begin() + leg->computed_tokens;
    slice.tokens.assign(begin, begin + count);
    slice.first_position = leg->computed_tokens;
    slice.blocks = leg->blocks;
    if (leg->computed_tokens + count == leg->tokens.size()) slice.samplers = leg->samplers;
    work.slices.push_back(std::move(slice));
  }
  return work;
}

model::step_executor::layer_callback prefill_state::layer_pusher(const open_step& parts) const {
  struct completed {
    std::shared_ptr<layer_push> push;
    std::uint32_t first_block;
    std::uint32_t last_block;
  };
  std::vector<completed> all;
  for (const auto& [leg, count] : parts.parts) {
    // A block goes out with the chunk that completes it (or that ends the prompt), whole.
    const auto end = leg->computed_tokens + count;
    const bool ends = end == leg->tokens.size();
    all.push_back({leg->push, leg->computed_tokens / block_tokens(),
                   ends ? environment_->layout.blocks_for(end) : end / block_tokens()});
  }
  return [all = std::move(all)](std::uint32_t layer) {
    for (const auto& part : all) part.push->push(layer, part.first_block, part.last_block);
  };
}

void prefill_state::step_done(const prefill_step_done& done) {
  YOLK_INVARIANT(step_ != nullptr);
  const auto step = std::move(step_);
  step_.reset();
  const auto now = environment_->clock->now();
  last_progress_ = now;
  ++steps_done_;
  std::uint32_t token_count = 0;
  for (const auto& part : step->parts) token_count += part.token_count;
  tokens_done_ += token_count;
  environment_->recorder->step(metrics::step_kind::prefill, token_count, done.result->elapsed);
  const double seconds = std::chrono::duration<double>(done.result->elapsed).count();
  for (std::size_t i = 0; i < step->parts.size(); ++i) {
    const auto& leg = step->parts[i].leg;
    const auto count = step->parts[i].token_count;
    leg->in_use -= 1;
    leg->compute_seconds += seconds * count / token_count;
    if (leg->phase() == leg_phase::ended) {
      leg->push->close();
      release_if_unused(leg);
      continue;
    }
    leg->computed_tokens += count;
    if (now + options_.transfer_deadline > leg->lease_end) {
      // The decode worker may give the blocks away before our next push would end.
      fail(leg, reason::TRANSFER_FAILED, "the reservation on the decode worker ran out");
      continue;
    }
    if (leg->computed_tokens < leg->tokens.size()) {
      self_->send(leg->decode, messages::keep_reservation::build([&](schema::KeepReservation::Builder keep) {
                    write(keep.initHeader(), leg->header, environment_->incarnation);
                  }));
      leg->lease_end = now + leg->lease;
      continue;
    }
    if (done.result->samples[i].empty()) {
      fail(leg, reason::INTERNAL, no_finite_logits);
      continue;
    }
    leg->enter(leg_phase::pushing);
    leg->push->close();
    first_tokens(leg, done.result->samples[i]);
  }
  report();
  start_legs();
}

void prefill_state::first_tokens(const leg_ptr& leg, const std::vector<core::sampled_token>& tokens) {
  const auto generated = static_cast<std::uint32_t>(leg->tokens.size()) - leg->prompt_length;
  const auto request = leg->request.read();
  const auto header = request->getHeader();
  for (std::uint32_t i = 0; i < tokens.size(); ++i) {
    const auto choice = leg->first_choice + i;
    const auto finish = finish_after(tokens[i].token, leg->sampling, environment_->model, generated + 1,
                                     leg->tokens.size() + 1);
    if (finish == schema::TokenBatch::Finish::NONE) leg->going_on.emplace_back(choice, tokens[i].token);
    self_->send(leg->session, make_token_batch(header, environment_->incarnation, choice, generated,
                                               tokens[i], finish, i == 0 ? leg->cached_tokens : 0));
  }
  hit_tokens_ += leg->cached_tokens;
  miss_tokens_ += leg->tokens.size() - leg->cached_tokens;
  keep_in_cache(leg);
}

void prefill_state::push_done(const prefill_push_done& done) {
  const auto found = legs_.find(done.leg);
  YOLK_INVARIANT(found != legs_.end(), done.leg);
  const auto leg = found->second;
  leg->in_use -= 1;
  if (leg->phase() == leg_phase::ended) return release_if_unused(leg);
  if (!done.all_arrived) return fail(leg, reason::TRANSFER_FAILED, "KV did not reach the decode worker");
  // Whole blocks keep their checksums: the next leg that begins with them pushes without hashing.
  for (std::uint32_t block = leg->resident_blocks; block < leg->tokens.size() / block_tokens(); ++block) {
    const auto sums = leg->push->checksums_of(block);
    checksums_[leg->blocks[block]].assign(sums.begin(), sums.end());
  }
  if (!leg->going_on.empty()) hand_over(leg);
  offer(leg);
  end(leg);
}

}  // namespace yolk::actors
