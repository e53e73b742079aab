#include "tests/actors/gateway/gateway_fixture.hpp"

#include <atomic>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>

#include "actors/conversions.hpp"
#include "messages/interfaces.hpp"

namespace yolk::tests {

namespace schema = messages::schema;

namespace {

constexpr auto patience = std::chrono::seconds(240);

class byte_tokenizer final : public model::tokenizer {
 public:
  explicit byte_tokenizer(bool begins_with_start) : begins_with_start_(begins_with_start) {}
  std::vector<core::token_id> encode(std::string_view text,
                                     const model::encode_options& options) const override {
    if (text.find(poison_text) != std::string_view::npos) throw std::runtime_error("poisoned text");
    auto ids = ids_of(text);
    if (begins_with_start_ && options.add_special_tokens) ids.insert(ids.begin(), start_token);
    return ids;
  }
  std::string decode(std::span<const core::token_id> tokens, bool) const override {
    std::string text;
    for (const core::token_id token : tokens) text += piece(token, false);
    return text;
  }
  std::string piece(core::token_id token, bool) const override {
    if (token == poison_token) throw std::runtime_error("poisoned token");
    return token < 256 ? std::string(1, static_cast<char>(token)) : std::string();
  }
  bool is_special(core::token_id token) const override { return token == end_token || token == start_token; }
  std::optional<core::token_id> find(std::string_view) const override { return std::nullopt; }
  std::size_t vocabulary_size() const override { return tests::vocabulary_size; }
  std::optional<core::token_id> bos() const override {
    return begins_with_start_ ? std::optional(start_token) : std::nullopt;
  }
  std::optional<core::token_id> eos() const override { return end_token; }
  const std::string& chat_template_text() const override { return template_; }

 private:
  bool begins_with_start_;
  std::string template_;
};

class line_template final : public model::chat_template {
 public:
  explicit line_template(std::shared_ptr<const model::tokenizer> tokens) : tokens_(std::move(tokens)) {}
  std::string name() const override { return "lines"; }
  model::result<std::string> render(std::span<const model::chat_message> messages,
                                    const model::chat_options& options) const override {
    std::string text;
    for (const auto& message : messages) text += message.role + ":" + message.content + "\n";
    if (options.add_generation_prompt) text += "assistant:";
    return text;
  }
  model::result<std::vector<core::token_id>> encode(std::span<const model::chat_message> messages,
                                                    const model::chat_options& options) const override {
    return tokens_->encode(*render(messages, options), {});
  }

 private:
  std::shared_ptr<const model::tokenizer> tokens_;
};

std::shared_ptr<const model::loaded_model> fake_model(const gateway_fixture_options& options) {
  auto made = std::make_shared<model::loaded_model>();
  made->name = "fake";
  made->fingerprint = "0123456789abcdef";
  made->config.vocabulary_size = vocabulary_size;
  made->config.context_length = options.context_length;
  made->config.end_tokens = {end_token};
  made->tokens = std::make_shared<byte_tokenizer>(options.begins_with_start);
  if (options.with_chat) made->chat = std::make_shared<line_template>(made->tokens);
  made->chat_error = "it has no template";
  return made;
}

class hand_clock final : public core::clock {
 public:
  core::time_point now() const override {
    return core::time_point(std::chrono::hours(1)) + std::chrono::milliseconds(milliseconds_.load());
  }
  void turn(std::chrono::milliseconds by) { milliseconds_ += by.count(); }

 private:
  std::atomic<std::int64_t> milliseconds_{0};
};

/// What the peers were sent, for the test's thread.
class mail {
 public:
  template <class Item>
  void put(std::map<peer, std::deque<Item>>& where, Item item) {
    const std::lock_guard lock(mutex_);
    const peer who = item.who;
    where[who].push_back(std::move(item));
    came_.notify_all();
  }
  template <class Item>
  Item take(std::map<peer, std::deque<Item>>& where, peer who, const char* what) {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, patience, [&] { return !where[who].empty(); }))
      throw std::runtime_error(std::string("gateway_fixture: no ") + what + " for the " +
                               (who == peer::admission ? "admission controller" : "conductor"));
    Item item = std::move(where[who].front());
    where[who].pop_front();
    return item;
  }
  bool empty(peer who) {
    const std::lock_guard lock(mutex_);
    return requests[who].empty();
  }
  void remember(std::uint64_t leg, const messages::session_actor& session) {
    const std::lock_guard lock(mutex_);
    sessions_[leg] = session;
  }
  messages::session_actor session_of(std::uint64_t leg) {
    const std::lock_guard lock(mutex_);
    return sessions_.at(leg);
  }
  void forget_sessions() {
    const std::lock_guard lock(mutex_);
    sessions_.clear();
  }

  std::map<peer, std::deque<seen_request>> requests;
  std::map<peer, std::deque<seen_end>> ends;

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::map<std::uint64_t, messages::session_actor> sessions_;
};

void note_request(mail& box, peer who, unsigned incarnation, const messages::generate_request& request,
                  const messages::session_actor& session) {
  const auto view = request.read();
  const auto header = actors::header_of(view->getHeader());
  seen_request seen{.who = who,
                    .incarnation = incarnation,
                    .leg = header.leg,
                    .request = header.request,
                    .attempt = header.attempt,
                    .tokens = actors::numbers_of<core::token_id>(view->getTokens()),
                    .prompt_length = view->getPromptLength(),
                    .first_choice = view->getFirstChoice(),
                    .choice_count = view->getChoiceCount()};
  for (const auto seed : view->getSampling().getSeeds()) seen.seeds.push_back(seed);
  seen.sampling = actors::sampling_of(view->getSampling());
  seen.root = actors::key_of(view->getRoot());
  box.remember(header.leg, session);
  box.put(box.requests, std::move(seen));
}

void note_end(mail& box, peer who, unsigned incarnation, const messages::leg_ended& ended) {
  const auto view = ended.read();
  box.put(box.ends, seen_end{who, incarnation, view->getHeader().getLegId(), view->getCancel()});
}

using mail_ptr = std::shared_ptr<mail>;

messages::admission_controller_actor::behavior_type scripted_admission(
    messages::admission_controller_actor::pointer, mail_ptr box, unsigned incarnation) {
  return {[](const messages::status_request&) { return messages::actor_status(); },
          [=](const messages::generate_request& request, const messages::session_actor& session) {
            note_request(*box, peer::admission, incarnation, request, session);
          },
          [=](const messages::leg_ended& ended) { note_end(*box, peer::admission, incarnation, ended); },
          [](const messages::peers_changed&, const messages::conductor_actor&) {}};
}

messages::conductor_actor::behavior_type scripted_conductor(messages::conductor_actor::pointer, mail_ptr box,
                                                            unsigned incarnation) {
  return {[](const messages::status_request&) { return messages::actor_status(); },
          [=](const messages::generate_request& request, const messages::session_actor& session) {
            note_request(*box, peer::conductor, incarnation, request, session);
          },
          [=](const messages::leg_ended& ended) { note_end(*box, peer::conductor, incarnation, ended); },
          [](const messages::prefill_ended&) {},
          [](const messages::worker_load&) {},
          [](const messages::cache_events&) {},
          [](const messages::actor_joined&, const messages::prefill_worker_actor&) {},
          [](const messages::actor_joined&, const messages::decode_worker_actor&) {},
          [](const messages::actor_joined&, const messages::cache_shard_actor&) {},
          [](const messages::drain_node&) {}};
}

caf::actor_system_config& configured(caf::actor_system_config& config) {
  config.load<caf::io::middleman>();
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", 2);
  return config;
}

schema::LegFailed::Reason reason_of(failure what) {
  using reason = schema::LegFailed::Reason;
  switch (what) {
    case failure::refused:
      return reason::REFUSED;
    case failure::worker_lost:
      return reason::WORKER_LOST;
    case failure::preempted:
      return reason::PREEMPTED;
    case failure::transfer_failed:
      return reason::TRANSFER_FAILED;
    case failure::unavailable:
      return reason::UNAVAILABLE;
    case failure::internal:
      break;
  }
  return reason::INTERNAL;
}

}  // namespace

std::vector<core::token_id> ids_of(std::string_view text) {
  std::vector<core::token_id> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

struct gateway_fixture::parts {
  caf::actor_system_config config;
  caf::actor_system system{configured(config)};
  mail_ptr box = std::make_shared<mail>();
  std::shared_ptr<hand_clock> clock = std::make_shared<hand_clock>();
  std::shared_ptr<actors::metrics> recorder = std::make_shared<actors::metrics>("fake");
  actors::started_gateway gateway;
  messages::admission_controller_actor admission;
  messages::conductor_actor conductor;
  unsigned admissions = 0;
  unsigned conductors = 0;
  std::unique_ptr<caf::scoped_actor> drainer;
};

gateway_fixture::gateway_fixture(gateway_fixture_options options) : parts_(std::make_unique<parts>()) {
  auto started = actors::start_http_gateway(parts_->system, options.gateway,
                                            {.model = fake_model(options),
                                             .recorder = parts_->recorder,
                                             .clock = parts_->clock,
                                             .incarnation = {7}});
  if (!started) throw std::runtime_error(started.error().message);
  parts_->gateway = *started;
  if (!options.with_peers) return;
  start(peer::admission);
  start(peer::conductor);
  tell_peers();
  running();  // the broker knows its peers now
}

gateway_fixture::~gateway_fixture() {
  parts_->drainer.reset();
  caf::anon_send_exit(parts_->gateway.broker, caf::exit_reason::user_shutdown);
  if (parts_->admission) kill(peer::admission);
  if (parts_->conductor) kill(peer::conductor);
  parts_->box->forget_sessions();
  parts_->gateway.broker = caf::actor{};
}

std::uint16_t gateway_fixture::port() const {
  return parts_->gateway.port;
}
actors::metrics& gateway_fixture::recorder() {
  return *parts_->recorder;
}

seen_request gateway_fixture::next_request(peer who) {
  return parts_->box->take(parts_->box->requests, who, "generate_request");
}
seen_end gateway_fixture::next_end(peer who) {
  return parts_->box->take(parts_->box->ends, who, "leg_ended");
}
bool gateway_fixture::nothing_requested(peer who) const {
  return parts_->box->empty(who);
}

void gateway_fixture::send_tokens(const seen_request& to, const batch& what) {
  send_tokens_as(to, to.leg, to.attempt, what);
}

void gateway_fixture::send_tokens_as(const seen_request& to, std::uint64_t leg, std::uint32_t attempt,
                                     const batch& what) {
  auto message = messages::token_batch::build([&](schema::TokenBatch::Builder builder) {
    actors::write(builder.initHeader(), {leg, to.request, attempt}, {1});
    builder.setChoice(what.choice);
    builder.setFirstIndex(what.first_index);
    auto tokens = builder.initTokens(static_cast<unsigned>(what.tokens.size()));
    for (unsigned i = 0; i < tokens.size(); ++i) {
      core::sampled_token token{.token = what.tokens[i]};
      if (what.with_logprobs) token = {what.tokens[i], -0.5f, {{what.tokens[i], -0.5f}, {'?', -2.0f}}};
      actors::write(tokens[i], token);
    }
    builder.setFinish(what.end == finish::stop     ? schema::TokenBatch::Finish::STOP
                      : what.end == finish::length ? schema::TokenBatch::Finish::LENGTH
                                                   : schema::TokenBatch::Finish::NONE);
    builder.setCachedTokens(what.cached_tokens);
  });
  caf::anon_send(parts_->box->session_of(to.leg), std::move(message));
}

void gateway_fixture::fail(const seen_request& which, failure reason, std::string_view message,
                           std::uint32_t retry_after) {
  caf::anon_send(parts_->box->session_of(which.leg),
                 actors::make_leg_failed({which.leg, which.request, which.attempt}, {1}, reason_of(reason),
                                         message, retry_after));
}

void gateway_fixture::kill(peer who) {
  if (who == peer::admission)
    caf::anon_send_exit(std::exchange(parts_->admission, {}), caf::exit_reason::kill);
  else
    caf::anon_send_exit(std::exchange(parts_->conductor, {}), caf::exit_reason::kill);
}

void gateway_fixture::kill_gateway() {
  caf::anon_send_exit(parts_->gateway.broker, caf::exit_reason::kill);
}

void gateway_fixture::start(peer who) {
  if (who == peer::admission)
    parts_->admission = parts_->system.spawn(scripted_admission, parts_->box, ++parts_->admissions);
  else
    parts_->conductor = parts_->system.spawn(scripted_conductor, parts_->box, ++parts_->conductors);
}

void gateway_fixture::tell_peers() {
  caf::anon_send(parts_->gateway.broker, messages::peers_changed::build([](auto) {}), parts_->admission,
                 parts_->conductor);
}

void gateway_fixture::report_health(bool healthy, std::string_view reason) {
  caf::anon_send(parts_->gateway.broker,
                 messages::health_report::build([&](schema::HealthReport::Builder builder) {
                   builder.setHealthy(healthy);
                   builder.setReason(std::string(reason));
                   auto cluster = builder.initCluster().initActors(1);
                   cluster[0].setKind(schema::ActorKind::DECODE_WORKER);
                   cluster[0].setRunning(3);
                 }));
}

void gateway_fixture::turn_clock(std::chrono::milliseconds by) {
  parts_->clock->turn(by);
}

std::uint32_t gateway_fixture::running() {
  caf::scoped_actor self(parts_->system);
  std::uint32_t count = 0;
  self->request(parts_->gateway.broker, patience, messages::status_request::build([](auto) {}))
      .receive([&](const messages::actor_status& status) { count = status.read()->getRunning(); },
               [&](const caf::error& error) { throw std::runtime_error(parts_->system.render(error)); });
  return count;
}

void gateway_fixture::start_draining() {
  parts_->drainer = std::make_unique<caf::scoped_actor>(parts_->system);
  (*parts_->drainer)->send(parts_->gateway.broker, actors::gateway_drain_atom::value);
  running();
}

void gateway_fixture::wait_drained() {
  caf::scoped_actor self(parts_->system);
  self->request(parts_->gateway.broker, patience, actors::gateway_drain_atom::value)
      .receive([] {},
               [&](const caf::error& error) { throw std::runtime_error(parts_->system.render(error)); });
}

void gateway_fixture::shut_down() {
  caf::scoped_actor self(parts_->system);
  self->request(parts_->gateway.broker, patience, actors::gateway_shutdown_atom::value)
      .receive([] {},
               [&](const caf::error& error) { throw std::runtime_error(parts_->system.render(error)); });
}

}  // namespace yolk::tests
