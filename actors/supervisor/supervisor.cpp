#include "actors/supervisor/supervisor.hpp"

#include <algorithm>
#include <caf/all.hpp>

#include "actors/supervisor/supervisor_state.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

namespace {

constexpr auto quick_death = std::chrono::seconds(5);
constexpr auto first_wait = std::chrono::milliseconds(10);
constexpr std::uint32_t max_doublings = 9;  // 10 ms · 2^9: some five seconds
constexpr std::uint64_t missed_answers = 6;
/// For the last words to clients; who does not read them within that time does not get them.
constexpr auto cut_off_limit = std::chrono::seconds(1);

struct holder {
  std::unique_ptr<supervisor_state> state;
  static inline const char* name = "supervisor";
};

supervisor_internal_actor::behavior_type run(supervisor_internal_actor::stateful_pointer<holder> self,
                                             const std::shared_ptr<const worker_factory>& factory) {
  self->state.state = std::make_unique<supervisor_state>(self, factory);
  auto* state = self->state.state.get();
  self->set_down_handler([state](const caf::down_msg& down) { state->child_down(down); });
  return {
      [state](const messages::node_hello& hello, const messages::node_member_actor& member) {
        return state->take_hello(hello, member);
      },
      [state](const messages::node_report& report) { state->take_report(report); },
      [state](const messages::drain_node& drain) { return state->drain_node(drain); },
      [state](const messages::status_request&) { return state->health(); },
      [state](const messages::cluster_peers& peers, const messages::conductor_actor& conductor,
              const messages::admission_controller_actor& admission) {
        state->take_peers(peers, conductor, admission);
      },
      [state](const messages::health_report& report) { state->take_cluster_health(report); },
      [state](find_atom, std::uint16_t kind, std::uint32_t id) { return state->find(kind, id); },
      [state](progress_atom) { return state->progress(); },
      [state](stop_atom) { state->stop(); },
      [self, state, factory](messages::tick_atom) {
        state->tick();
        self->delayed_send(self, factory->options().status_interval, messages::tick_atom::value);
      },
      [state](restart_atom, std::uint16_t kind, std::uint32_t id) { state->restart(kind, id); },
      [state](moved_atom) { state->look_whether_moved(); },
      [state](begin_atom) { return state->begin(); },
  };
}

std::uint16_t number(schema::ActorKind kind) {
  return static_cast<std::uint16_t>(kind);
}

const char* name_of(std::uint16_t kind) {
  return kind_name(static_cast<schema::ActorKind>(kind));
}

}  // namespace

node_result<running_node> start_node(caf::actor_system& system,
                                     std::shared_ptr<const worker_factory> factory) {
  const auto supervisor = system.spawn<caf::detached>(run, std::move(factory));
  caf::scoped_actor self{system};
  running_node node{.supervisor = supervisor, .port = 0, .door = {}, .metrics_port = 0};
  std::string problem;
  self->request(supervisor, std::chrono::seconds(60), begin_atom::value)
      .receive(
          [&](std::uint16_t port, const std::string& why, std::uint16_t door, std::uint16_t metrics) {
            node.port = port;
            node.door.port = door;
            node.metrics_port = metrics;
            problem = why;
          },
          [&](const caf::error& error) { problem = system.render(error); });
  if (problem.empty()) return node;
  caf::anon_send(supervisor, stop_atom::value);
  self->wait_for(supervisor);
  return core::failure<node_errc>{node_errc::no_room, problem};
}

supervisor_state::supervisor_state(supervisor_internal_actor::pointer self,
                                   std::shared_ptr<const worker_factory> factory)
    : self_(self),
      factory_(std::move(factory)),
      // Larger than any earlier run's, so that a node that restarts under its old address is told from its
      // past.
      last_incarnation_(static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                                       std::chrono::system_clock::now().time_since_epoch())
                                                       .count())
                        << 16),
      started_(factory_->clock()->now()),
      first_incarnation_(last_incarnation_) {}

caf::result<std::uint16_t, std::string, std::uint16_t, std::uint16_t> supervisor_state::begin() {
  auto problem = open_door();
  if (!problem) problem = open_monitor();
  if (!problem) problem = try_to_lead();
  if (problem) return {std::uint16_t{0}, *problem, std::uint16_t{0}, std::uint16_t{0}};
  self_->send(self_, messages::tick_atom::value);
  return {port_, std::string(), address_.port, monitor_port_};
}

std::optional<std::string> supervisor_state::start_parts() {
  const auto& options = factory_->options();
  std::vector<part> parts;
  if (has_role(role_cache)) parts.emplace_back(number(actor_kind::CACHE_SHARD), 0);
  for (std::uint32_t i = 0; i < options.prefill_workers; ++i)
    parts.emplace_back(number(actor_kind::PREFILL_WORKER), i);
  for (std::uint32_t i = 0; i < options.decode_workers; ++i)
    parts.emplace_back(number(actor_kind::DECODE_WORKER), i);
  if (has_role(role_conductor)) {
    parts.emplace_back(number(actor_kind::CONDUCTOR), 0);
    parts.emplace_back(number(actor_kind::ADMISSION_CONTROLLER), 0);
  }
  if (has_role(role_gateway)) parts.emplace_back(number(actor_kind::HTTP_GATEWAY), 0);
  for (const auto& which : parts)
    if (auto problem = start(which)) return problem;
  return std::nullopt;
}

std::optional<std::string> supervisor_state::start(part which) {
  const auto incarnation = next_incarnation();
  auto& system = self_->system();
  const auto& options = factory_->options();
  // One number space for all that hold blocks: decode workers follow prefill workers, the shard comes last.
  const auto holder = worker(holder_of(which));
  caf::strong_actor_ptr handle;
  switch (static_cast<actor_kind>(which.first)) {
    case actor_kind::CACHE_SHARD: {
      auto made = factory_->make_shard(holder, incarnation);
      if (!made) return made.error().message;
      handle = caf::actor_cast<caf::strong_actor_ptr>(spawn_cache_shard(system, options.shard, *made));
      break;
    }
    case actor_kind::PREFILL_WORKER: {
      auto made = factory_->make_prefill(holder, incarnation);
      if (!made) return made.error().message;
      handle = caf::actor_cast<caf::strong_actor_ptr>(spawn_prefill_worker(system, options.prefill, *made));
      break;
    }
    case actor_kind::DECODE_WORKER: {
      auto made = factory_->make_decode(holder, incarnation);
      if (!made) return made.error().message;
      handle = caf::actor_cast<caf::strong_actor_ptr>(spawn_decode_worker(system, options.decode, *made));
      break;
    }
    case actor_kind::CONDUCTOR:
      handle = caf::actor_cast<caf::strong_actor_ptr>(
          spawn_conductor(system, options.conductor, {incarnation, factory_->recorder(), factory_->clock()}));
      break;
    case actor_kind::ADMISSION_CONTROLLER:
      handle = caf::actor_cast<caf::strong_actor_ptr>(spawn_admission_controller(
          system, options.admission, {incarnation, factory_->recorder(), factory_->clock()}));
      break;
    case actor_kind::HTTP_GATEWAY: {
      auto gateway = options.gateway;
      if (port_ != 0) gateway.port = port_;  // a restarted gateway is where it was
      gateway.max_context_tokens = factory_->max_context_tokens();
      gateway.block_tokens = options.block_tokens;
      gateway.max_prompts_at_once = options.admission.max_running + options.admission.max_waiting;
      gateway.numerics = factory_->numerics();
      gateway.device = factory_->device();
      gateway.node_number = number_;
      auto started =
          start_http_gateway(system, std::move(gateway),
                             {factory_->model(), factory_->recorder(), factory_->clock(), incarnation});
      if (!started) return started.error().message;
      port_ = started->port;
      handle = caf::actor_cast<caf::strong_actor_ptr>(started->broker);
      break;
    }
    case actor_kind::SUPERVISOR:
      return "a supervisor has no part in itself";
  }
  self_->monitor(handle);
  auto& child = children_[which];
  child.handle = std::move(handle);
  child.incarnation = incarnation;
  child.last_start = factory_->clock()->now();
  child.answered_serial = serial_;
  return std::nullopt;
}

template <class Handle>
Handle supervisor_state::handle_of(actor_kind kind, std::uint32_t id) const {
  const auto found = children_.find({number(kind), id});
  return found == children_.end() || !found->second.handle ? Handle()
                                                           : caf::actor_cast<Handle>(found->second.handle);
}

std::uint32_t supervisor_state::holder_of(part which) const {
  const auto& options = factory_->options();
  switch (static_cast<actor_kind>(which.first)) {
    case actor_kind::DECODE_WORKER:
      return options.prefill_workers + which.second;
    case actor_kind::CACHE_SHARD:
      return options.prefill_workers + options.decode_workers + which.second;
    default:
      return which.second;
  }
}

void supervisor_state::introduce_all() {
  if (is_head()) {
    peers_ = {handle_of<messages::conductor_actor>(actor_kind::CONDUCTOR, 0),
              handle_of<messages::admission_controller_actor>(actor_kind::ADMISSION_CONTROLLER, 0)};
    tell_members();
  }
  for (const auto& [which, child] : children_)
    if (child.handle) introduce(which);
}

/// Tells one actor whom it calls on, and the conductor of one that it places work on.
void supervisor_state::introduce(part which) {
  const auto& options = factory_->options();
  const auto changed = messages::peers_changed::build([&](auto builder) { builder.setSerial(serial_); });
  const auto& conductor = peers_.conductor;
  if (!conductor) return;
  const messages::conductor_reports reports = conductor;
  const auto news = [&](std::uint64_t kv_bytes) {
    return messages::actor_joined::build([&](schema::ActorJoined::Builder joined) {
      joined.setKind(static_cast<actor_kind>(which.first));
      joined.setId(worker(holder_of(which)).value);
      joined.setIncarnation(children_.at(which).incarnation.value);
      joined.setCapacityTokens(kv_bytes /
                               factory_->model()->config.kv_layout(options.block_tokens).token_bytes());
    });
  };
  switch (static_cast<actor_kind>(which.first)) {
    case actor_kind::CACHE_SHARD: {
      const auto shard = handle_of<messages::cache_shard_actor>(actor_kind::CACHE_SHARD, which.second);
      self_->send(shard, changed, reports);
      self_->send(conductor, news(options.cache_dram_bytes), shard);
      break;
    }
    case actor_kind::PREFILL_WORKER: {
      const auto worker = handle_of<messages::prefill_worker_actor>(actor_kind::PREFILL_WORKER, which.second);
      self_->send(worker, changed, reports);
      self_->send(conductor, news(options.prefill_kv_bytes), worker);
      break;
    }
    case actor_kind::DECODE_WORKER: {
      const auto worker = handle_of<messages::decode_worker_actor>(actor_kind::DECODE_WORKER, which.second);
      self_->send(worker, changed, reports);
      self_->send(conductor, news(options.decode_kv_bytes), worker);
      break;
    }
    case actor_kind::ADMISSION_CONTROLLER:
      self_->send(handle_of<messages::admission_controller_actor>(actor_kind::ADMISSION_CONTROLLER, 0),
                  changed, conductor);
      break;
    case actor_kind::HTTP_GATEWAY:
      if (peers_.admission)
        caf::anon_send(handle_of<caf::actor>(actor_kind::HTTP_GATEWAY, 0), changed, peers_.admission,
                       conductor);
      break;
    case actor_kind::CONDUCTOR:
    case actor_kind::SUPERVISOR:
      break;
  }
}

void supervisor_state::child_down(const caf::down_msg& down) {
  if (monitor_ && down.source == monitor_.address()) {
    monitor_ = caf::actor();  // the next tick starts another
    return;
  }
  if (ending_ != ending::no || member_down(down.source) || door_down(down.source)) return;
  for (auto& [which, child] : children_) {
    if (!child.handle || child.handle->address() != down.source) continue;
    child.handle = nullptr;
    const auto now = factory_->clock()->now();
    child.quick_deaths = now - child.last_start < quick_death ? child.quick_deaths + 1 : 0;
    factory_->recorder()->actor_restarted(name_of(which.first));
    if (child.quick_deaths == 0)
      restart(which.first, which.second);
    else
      self_->delayed_send(self_, first_wait * (1u << std::min(child.quick_deaths - 1, max_doublings)),
                          restart_atom::value, which.first, which.second);
    return;
  }
}

void supervisor_state::restart(std::uint16_t kind, std::uint32_t id) {
  const part which{kind, id};
  auto& child = children_.at(which);
  if (ending_ != ending::no || child.handle) return;
  child.restarts += 1;
  if (start(which)) {  // no room just now, or the port is not free yet: again, later
    child.quick_deaths += 1;
    self_->delayed_send(self_, first_wait * (1u << std::min(child.quick_deaths, max_doublings)),
                        restart_atom::value, kind, id);
    return;
  }
  const auto changed = static_cast<actor_kind>(kind);
  if (changed == actor_kind::CONDUCTOR || changed == actor_kind::CACHE_SHARD ||
      changed == actor_kind::ADMISSION_CONTROLLER)
    introduce_all();  // others call on it
  else
    introduce(which);
}

void supervisor_state::tick() {
  cluster_tick();
  tell_gateway();
  tell_monitor();
  ask_everyone();
}

void supervisor_state::ask_everyone() {
  ++serial_;
  const auto ask = messages::status_request::build([&](auto builder) { builder.setSerial(serial_); });
  for (const auto& [which, child] : children_) {
    if (!child.handle) continue;
    self_->request(caf::actor_cast<caf::actor>(child.handle), factory_->options().status_interval * 4, ask)
        .then(
            [this, key = which](const messages::actor_status& status) {
              auto& answered = children_.at(key);
              if (answered.incarnation.value != status.read()->getIncarnation()) return;
              answered.status = status;
              answered.answered_serial = std::max(answered.answered_serial, status.read()->getSerial());
            },
            [](const caf::error&) {});  // told by its serial staying behind
  }
}

messages::health_report supervisor_state::own_health() const {
  std::string reason;
  for (const auto& [which, child] : children_) {
    const auto who = std::string(name_of(which.first)) + " " + std::to_string(which.second);
    if (!child.handle)
      reason = who + " is down";
    else if (serial_ > child.answered_serial + missed_answers)
      reason = who + " does not answer";
    else if (child.status) {
      const auto idle = std::chrono::milliseconds(child.status.read()->getIdleMilliseconds());
      if (child.status.read()->getHasWork() && idle > factory_->options().hang_limit)
        reason = who + " has work and makes no progress for " + std::to_string(idle.count()) + " ms";
    }
  }
  return messages::health_report::build([&](schema::HealthReport::Builder report) {
    report.setHealthy(reason.empty());
    report.setReason(reason);
    auto cluster = report.initCluster();
    std::vector<const child*> known;
    for (const auto& [which, child] : children_)
      if (child.status) known.push_back(&child);
    auto actors = cluster.initActors(static_cast<unsigned>(known.size()));
    auto restarts = cluster.initRestarts(static_cast<unsigned>(known.size()));
    for (unsigned i = 0; i < known.size(); ++i) {
      actors.setWithCaveats(i, *known[i]->status.read());
      restarts.set(i, known[i]->restarts);
    }
    cluster.setMissing(static_cast<std::uint32_t>(children_.size() - known.size()));
    cluster.setStartedMilliseconds(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(factory_->clock()->now() - started_).count()));
  });
}

void supervisor_state::tell_gateway() {
  const auto gateway = handle_of<caf::actor>(actor_kind::HTTP_GATEWAY, 0);
  if (!gateway && members_.empty()) return;
  const auto report = health();
  if (gateway) caf::anon_send(gateway, report);
  for (const auto& [number, member] : members_) self_->send(member, report);
}

caf::strong_actor_ptr supervisor_state::find(std::uint16_t kind, std::uint32_t id) const {
  const auto found = children_.find({kind, id});
  return found == children_.end() ? nullptr : found->second.handle;
}

void supervisor_state::stop() {
  if (ending_ == ending::draining) return cut_off();  // asked again: at once
  if (ending_ != ending::no) return end_children();
  ending_ = ending::draining;
  const auto gateway = handle_of<caf::actor>(actor_kind::HTTP_GATEWAY, 0);
  if (head_) leave();
  if (!gateway) return head_ ? look_whether_moved() : end_children();
  self_->request(gateway, factory_->options().drain_limit, gateway_drain_atom::value)
      .then([this] { end_children(); }, [this](const caf::error&) { cut_off(); });
}

void supervisor_state::cut_off() {
  if (ending_ != ending::draining) return;
  if (!handle_of<caf::actor>(actor_kind::HTTP_GATEWAY, 0)) return end_children();
  ending_ = ending::cutting_off;
  self_
      ->request(handle_of<caf::actor>(actor_kind::HTTP_GATEWAY, 0), cut_off_limit,
                gateway_shutdown_atom::value)
      .then([this] { end_children(); }, [this](const caf::error&) { end_children(); });
}

void supervisor_state::end_children() {
  if (ending_ == ending::ended) return;
  ending_ = ending::ended;
  end_parts();
  if (monitor_) self_->send_exit(monitor_, caf::exit_reason::user_shutdown);
  self_->quit();
}

void supervisor_state::end_parts() {
  // From the edge inwards, so that nobody is asked for what is gone already.
  for (const auto kind : {actor_kind::HTTP_GATEWAY, actor_kind::ADMISSION_CONTROLLER, actor_kind::CONDUCTOR,
                          actor_kind::PREFILL_WORKER, actor_kind::DECODE_WORKER, actor_kind::CACHE_SHARD})
    for (auto& [which, child] : children_)
      if (which.first == number(kind) && child.handle) {
        self_->send_exit(child.handle, caf::exit_reason::user_shutdown);
        child.handle = nullptr;
      }
}

}  // namespace yolk::actors
