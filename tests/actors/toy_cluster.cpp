#include "tests/actors/toy_cluster.hpp"

#include <atomic>
#include <sstream>

namespace yolk::tests {

namespace schema = messages::schema;
using actors::leg_header;

namespace {

constexpr auto patience = std::chrono::seconds(240);  // a deadline: nothing waits for it to pass

/// The session's part in short: collects tokens by index, resumes what was lost, keeps no promise twice.
class session_state {
 public:
  static inline const char* name = "test_session";

  void start(test_session_actor::pointer self, const generation_ask& ask,
             const messages::admission_controller_actor& admission,
             const messages::conductor_actor& conductor, std::atomic<std::uint64_t>* legs,
             std::shared_ptr<std::promise<generation_outcome>> promise) {
    self_ = self;
    ask_ = ask;
    admission_ = admission;
    conductor_ = conductor;
    legs_ = legs;
    promise_ = std::move(promise);
    outcome_.tokens.resize(ask.choices);
    finished_.resize(ask.choices);
    leg_of_.resize(ask.choices);
    send_leg(0, ask.choices, 0, true);
  }

  void take(const messages::token_batch& batch) {
    const auto given = batch.read();
    const auto choice = given->getChoice();
    if (finished_[choice] || given->getHeader().getLegId() != leg_of_[choice]) return;
    auto& tokens = outcome_.tokens[choice];
    if (given->getFirstIndex() != tokens.size()) return;
    if (outcome_.resumes == 0)
      outcome_.cached_tokens = std::max(outcome_.cached_tokens, given->getCachedTokens());
    for (auto token : given->getTokens()) tokens.push_back(token.getId());
    if (given->getFinish() == schema::TokenBatch::Finish::NONE) return;
    finished_[choice] = true;
    if (std::all_of(finished_.begin(), finished_.end(), [](bool f) { return f; })) end(false);
  }

  void failed(const messages::leg_failed& failed) {
    const auto given = failed.read();
    const auto leg = given->getHeader().getLegId();
    if (std::find(leg_of_.begin(), leg_of_.end(), leg) == leg_of_.end()) return;
    outcome_.failures.push_back(std::to_string(static_cast<int>(given->getReason())) + ": " +
                                given->getMessage().cStr());
    const bool resumable = given->getReason() != schema::LegFailed::Reason::REFUSED &&
                           given->getReason() != schema::LegFailed::Reason::UNAVAILABLE &&
                           given->getReason() != schema::LegFailed::Reason::INTERNAL;
    if (!resumable || outcome_.resumes > 100) {
      outcome_.gave_up = true;
      return end(true);
    }
    ++outcome_.resumes;
    for (std::uint32_t choice = 0; choice < ask_.choices; ++choice)
      if (leg_of_[choice] == leg && !finished_[choice]) send_leg(choice, 1, outcome_.resumes, false);
  }

  void end(bool cancel) {
    for (const auto leg : sent_) {
      const auto ended = actors::make_leg_ended({leg, 0, 0}, {}, cancel);
      self_->send(admission_, ended);
      self_->send(conductor_, ended);
    }
    promise_->set_value(outcome_);
    self_->quit();
  }

 private:
  void send_leg(std::uint32_t first, std::uint32_t count, std::uint32_t attempt, bool through_admission) {
    const auto leg = legs_->fetch_add(1) + 1;
    sent_.push_back(leg);
    std::vector<std::uint64_t> seeds;
    for (std::uint32_t i = first; i < first + count; ++i) {
      leg_of_[i] = leg;
      seeds.push_back(1000 + i);
    }
    auto tokens = ask_.prompt;
    if (count == 1) tokens.insert(tokens.end(), outcome_.tokens[first].begin(), outcome_.tokens[first].end());
    core::sampling_params params;
    params.temperature = ask_.temperature;
    params.max_tokens = ask_.max_tokens;
    params.ignore_eos = ask_.ignore_end;
    const auto request = messages::generate_request::build([&](schema::GenerateRequest::Builder builder) {
      actors::write(builder.initHeader(), leg_header{leg, sent_.front(), attempt}, core::incarnation{1});
      builder.setTokens(actors::as_data(tokens));
      builder.setPromptLength(static_cast<std::uint32_t>(ask_.prompt.size()));
      actors::write(builder.initSampling(), params, seeds);
      actors::write(builder.initRoot(), kvcache::make_root({.tenant = ask_.tenant, .model = "toy"}));
      builder.setFirstChoice(first);
      builder.setChoiceCount(count);
    });
    const messages::session_actor me{self_};
    if (through_admission)
      self_->send(admission_, request, me);
    else
      self_->send(conductor_, request, me);
  }

  test_session_actor::pointer self_ = nullptr;
  generation_ask ask_;
  messages::admission_controller_actor admission_;
  messages::conductor_actor conductor_;
  std::atomic<std::uint64_t>* legs_ = nullptr;
  std::shared_ptr<std::promise<generation_outcome>> promise_;
  generation_outcome outcome_;
  std::vector<bool> finished_;
  std::vector<std::uint64_t> leg_of_;
  std::vector<std::uint64_t> sent_;
};

std::atomic<std::uint64_t> leg_numbers{0};

test_session_actor::behavior_type run_session(
    test_session_actor::stateful_pointer<session_state> self, const generation_ask& ask,
    const messages::admission_controller_actor& admission, const messages::conductor_actor& conductor,
    const std::shared_ptr<std::promise<generation_outcome>>& promise) {
  auto* state = &self->state;
  state->start(self, ask, admission, conductor, &leg_numbers, promise);
  return {[state](const messages::token_batch& batch) { state->take(batch); },
          [state](const messages::leg_failed& failed) { state->failed(failed); },
          [state](cancel_atom) { state->end(true); }};
}

}  // namespace

toy_cluster::toy_cluster(cluster_shape shape) : shape_(std::move(shape)), system_(config_) {
  shape_.conductor.block_tokens = toy_layout.block_tokens;
  conductor_ = actors::spawn_conductor(system_, shape_.conductor, {{++last_incarnation_}, recorder_, clock_});
  admission_ = actors::spawn_admission_controller(system_, shape_.admission,
                                                  {{++last_incarnation_}, recorder_, clock_});
  start_shard();
  for (std::uint32_t i = 0; i < shape_.prefill_workers; ++i) start_prefill(i);
  for (std::uint32_t i = 0; i < shape_.decode_workers; ++i) start_decode(i);
  caf::anon_send(admission_, messages::peers_changed::build([](auto) {}), conductor_);
}

toy_cluster::~toy_cluster() {
  caf::anon_send_exit(admission_, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(conductor_, caf::exit_reason::user_shutdown);
  for (const auto& [index, worker] : prefill_) caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
  for (const auto& [index, worker] : decode_) caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(shard_, caf::exit_reason::user_shutdown);
  admission_ = messages::admission_controller_actor();
  conductor_ = messages::conductor_actor();
  prefill_.clear();
  decode_.clear();
  shard_ = messages::cache_shard_actor();
}

std::unique_ptr<transport::transfer_engine> toy_cluster::engine(const std::string& who, std::uint32_t blocks,
                                                                core::incarnation incarnation) {
  auto made = transport::transfer_engine::start(
      {.region_bytes = blocks * toy_layout.block_bytes(), .owner = incarnation});
  YOLK_INVARIANT(made.has_value());
  auto engine = std::move(made).value();
  return shape_.wrap ? shape_.wrap(who, std::move(engine)) : std::move(engine);
}

std::shared_ptr<actors::worker_environment> toy_cluster::environment(const std::string& who,
                                                                     core::worker_id id,
                                                                     std::uint32_t blocks) {
  auto made = std::make_shared<actors::worker_environment>();
  made->id = id;
  made->incarnation = {++last_incarnation_};
  made->model = {.end_tokens = {toy_end_token},
                 .vocabulary_size = toy_vocabulary,
                 .context_length = 16384,
                 .rope_base = 1};
  made->layout = toy_layout;
  made->block_count = blocks;
  made->transfers = engine(who, blocks, made->incarnation);
  made->executor = std::make_unique<toy_executor>(made->transfers->region(), shape_.finite_tokens);
  made->recorder = recorder_;
  made->clock = clock_;
  return made;
}

void toy_cluster::start_prefill(std::uint32_t index) {
  actors::prefill_options options;
  options.chunk_tokens = shape_.chunk_tokens;
  options.look_ahead = shape_.eviction == kvcache::eviction_order::look_ahead;
  auto made = environment("prefill", {index}, shape_.prefill_blocks);
  const auto incarnation = made->incarnation;
  auto worker = actors::spawn_prefill_worker(system_, options, std::move(made));
  prefill_[index] = worker;
  caf::anon_send(worker, messages::peers_changed::build([](auto) {}),
                 messages::conductor_reports(conductor_));
  caf::anon_send(conductor_, messages::actor_joined::build([&](schema::ActorJoined::Builder joined) {
                   joined.setKind(schema::ActorKind::PREFILL_WORKER);
                   joined.setId(index);
                   joined.setIncarnation(incarnation.value);
                 }),
                 worker);
}

void toy_cluster::start_decode(std::uint32_t index) {
  auto options = shape_.decode;
  options.max_batch = shape_.max_batch;
  auto made = environment("decode", {100 + index}, shape_.decode_blocks);
  const auto incarnation = made->incarnation;
  auto worker = actors::spawn_decode_worker(system_, options, std::move(made));
  decode_[index] = worker;
  caf::anon_send(worker, messages::peers_changed::build([](auto) {}),
                 messages::conductor_reports(conductor_));
  caf::anon_send(conductor_, messages::actor_joined::build([&](schema::ActorJoined::Builder joined) {
                   joined.setKind(schema::ActorKind::DECODE_WORKER);
                   joined.setId(100 + index);
                   joined.setIncarnation(incarnation.value);
                   joined.setCapacityTokens(shape_.decode_blocks * toy_layout.block_tokens);
                 }),
                 worker);
}

void toy_cluster::start_shard() {
  auto made = std::make_shared<actors::shard_environment>();
  made->id = {200};
  made->incarnation = {++last_incarnation_};
  made->layout = toy_layout;
  made->byte_limit = shape_.shard_blocks * toy_layout.block_bytes();
  made->transfers = engine("shard", shape_.shard_blocks, made->incarnation);
  made->recorder = recorder_;
  made->clock = clock_;
  const auto incarnation = made->incarnation;
  if (!shape_.ssd_folder.empty()) {
    auto log = kvcache::ssd_log::open({.folder = shape_.ssd_folder,
                                       .byte_limit = shape_.ssd_bytes,
                                       .layout = toy_layout,
                                       .owner = kvcache::make_root({.model = "toy", .block_tokens = 4}),
                                       .incarnation = incarnation},
                                      kvcache::make_io_backend());
    YOLK_INVARIANT(log.has_value(), log.error().message);
    made->ssd = std::move(log).value();
  }
  actors::shard_options options;
  options.write_policy = shape_.write_policy;
  options.eviction = shape_.eviction;
  options.orphan_wait = std::chrono::milliseconds(50);
  shard_ = actors::spawn_cache_shard(system_, options, std::move(made));
  caf::anon_send(shard_, messages::peers_changed::build([](auto) {}),
                 messages::conductor_reports(conductor_));
  caf::anon_send(conductor_, messages::actor_joined::build([&](schema::ActorJoined::Builder joined) {
                   joined.setKind(schema::ActorKind::CACHE_SHARD);
                   joined.setId(200);
                   joined.setIncarnation(incarnation.value);
                 }),
                 shard_);
}

void toy_cluster::kill_decode(std::uint32_t index) {
  caf::scoped_actor self{system_};
  self->send_exit(decode_.at(index), caf::exit_reason::kill);
  self->wait_for(decode_.at(index));
}
void toy_cluster::kill_prefill(std::uint32_t index) {
  caf::scoped_actor self{system_};
  self->send_exit(prefill_.at(index), caf::exit_reason::kill);
  self->wait_for(prefill_.at(index));
}
void toy_cluster::kill_shard() {
  caf::scoped_actor self{system_};
  self->send_exit(shard_, caf::exit_reason::kill);
  self->wait_for(shard_);
}

toy_cluster::running toy_cluster::begin(const generation_ask& ask) {
  auto promise = std::make_shared<std::promise<generation_outcome>>();
  running started;
  started.outcome = promise->get_future();
  started.session =
      caf::actor_cast<caf::actor>(system_.spawn(run_session, ask, admission_, conductor_, promise));
  return started;
}

generation_outcome toy_cluster::generate(const generation_ask& ask) {
  auto started = begin(ask);
  return await(started);
}

generation_outcome toy_cluster::await(running& started) {
  const bool came = started.outcome.wait_for(patience) == std::future_status::ready;
  YOLK_INVARIANT(came, describe());
  return started.outcome.get();
}

std::string toy_cluster::describe() {
  std::ostringstream text;
  for (const auto& who : everyone()) {
    const auto answer = status_of(who);
    if (!answer) {
      text << "\n  no answer";
      continue;
    }
    const auto status = answer.read();
    text << "\n  kind " << static_cast<int>(status->getKind()) << ' ' << status->getId() << " running "
         << status->getRunning() << " waiting " << status->getWaiting() << " blocks used "
         << status->getBlocksUsed() << " cached " << status->getBlocksCached() << " steps "
         << status->getStepsDone() << " has work " << status->getHasWork() << " transfers "
         << status->getTransfers() << " failed " << status->getTransferFailures();
  }
  return text.str();
}

std::vector<caf::actor> toy_cluster::everyone() const {
  std::vector<caf::actor> all = {shard(), caf::actor_cast<caf::actor>(conductor_),
                                 caf::actor_cast<caf::actor>(admission_)};
  for (const auto& [index, worker] : prefill_) all.push_back(caf::actor_cast<caf::actor>(worker));
  for (const auto& [index, worker] : decode_) all.push_back(caf::actor_cast<caf::actor>(worker));
  return all;
}

messages::actor_status toy_cluster::status_of(const caf::actor& who) {
  caf::scoped_actor self{system_};
  messages::actor_status answer;
  self->request(who, patience, messages::status_request::build([](auto) {}))
      .receive([&](const messages::actor_status& status) { answer = status; }, [&](const caf::error&) {});
  return answer;
}

std::string toy_cluster::settle() {
  const auto all = everyone();
  std::ostringstream left;
  const auto end = std::chrono::steady_clock::now() + patience;
  // Twice in a row: what one actor told another while the first round was under way is taken in by the
  // second.
  int clean = 0;
  do {
    left.str("");
    for (const auto& who : all) {
      const auto answer = status_of(who);
      if (!answer) {
        left << "no answer; ";
        continue;
      }
      const auto status = answer.read();
      // What an actor holds beyond its cache: sequences, reservations, offers, pins.
      if (status->getRunning() + status->getWaiting() > 0)
        left << "kind " << static_cast<int>(status->getKind()) << " runs " << status->getRunning()
             << " waits " << status->getWaiting() << "; ";
      if (status->getKind() != schema::ActorKind::CONDUCTOR && status->getBlocksUsed() > 0)
        left << "kind " << static_cast<int>(status->getKind()) << " uses " << status->getBlocksUsed()
             << " blocks; ";
      if (status->getAudit().size() > 0) left << status->getAudit().cStr() << "; ";
    }
    clean = left.str().empty() ? clean + 1 : 0;
  } while (clean < 2 && std::chrono::steady_clock::now() < end);
  return left.str();
}

}  // namespace yolk::tests
