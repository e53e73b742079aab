// The supervisor among others: its door, the way to the head, and the head's book of nodes.
#include <algorithm>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>
#include <set>

#include "actors/supervisor/supervisor_state.hpp"
#include "kvcache/block_header.hpp"
#include "messages/wire.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

namespace {

constexpr auto connect_timeout = std::chrono::seconds(5);
constexpr auto hello_timeout = std::chrono::seconds(5);
constexpr auto moved_interval = std::chrono::milliseconds(50);

node_address address_of(schema::NodeAddress::Reader address) {
  return {address.getHost(), address.getPort()};
}

void write(schema::NodeAddress::Builder builder, std::uint32_t number, const node_address& address) {
  builder.setNumber(number);
  builder.setHost(address.host);
  builder.setPort(address.port);
}

std::string text_of(const node_address& address) {
  return address.host + ":" + std::to_string(address.port);
}

}  // namespace

model_identity supervisor_state::identity() const {
  return {.fingerprint = factory_->model()->fingerprint,
          .numerics = factory_->numerics(),
          .format_version = kvcache::block_header::current_format,
          .block_tokens = factory_->options().block_tokens};
}

std::optional<std::string> supervisor_state::open_door() {
  const auto& cluster = factory_->options().cluster;
  if (!cluster.listen) return std::nullopt;
  const auto port = caf::openssl::publish(messages::node_door_actor(self_), cluster.listen->port,
                                          cluster.listen->host.c_str(), true);
  if (!port) return "--listen " + text_of(*cluster.listen) + ": " + self_->system().render(port.error());
  address_ = {cluster.advertise.empty() ? cluster.listen->host : cluster.advertise, *port};
  return std::nullopt;
}

std::optional<std::string> supervisor_state::try_to_lead() {
  const auto& cluster = factory_->options().cluster;
  if (!has_role(role_conductor) || is_head()) return std::nullopt;
  if (cluster.leadership && !cluster.leadership->try_acquire()) {
    progress_.text = "stands by for " + cluster.leadership->description();
    return std::nullopt;
  }
  if (auto problem = start_parts()) return problem;
  membership_.emplace(messages::protocol_version, identity(), cluster.max_nodes);
  progress_ = {node_state::running, port_, {}};
  introduce_all();
  return std::nullopt;
}

// -- the head
// -----------------------------------------------------------------------------------------------------

messages::node_welcome supervisor_state::take_hello(const messages::node_hello& hello,
                                                    const messages::node_member_actor& member) {
  const auto given = hello.read();
  membership_answer answer{.number = 0, .reason = "this node is not the head of a cluster", .final = false};
  if (membership_ && ending_ == ending::no) {
    const auto model = given->getModel();
    answer = membership_->join({.protocol = given->getProtocol(),
                                .incarnation = {given->getIncarnation()},
                                .name = given->getName(),
                                .roles = given->getRoles(),
                                .number = given->getNumber(),
                                .model = {.fingerprint = model.getFingerprint(),
                                          .numerics = model.getNumerics(),
                                          .format_version = model.getFormatVersion(),
                                          .block_tokens = model.getBlockTokens()},
                                .address = address_of(given->getAddress())});
  }
  if (answer.number != 0) {
    // The same node under its former number, if its link broke before we heard of it.
    std::erase_if(members_, [&](const auto& entry) {
      return entry.second.address() == member.address() || !membership_->members().contains(entry.first);
    });
    members_[answer.number] = member;
    self_->monitor(member);
    tell_members();
  }
  return messages::node_welcome::build([&](schema::NodeWelcome::Builder welcome) {
    welcome.setAccepted(answer.number != 0);
    welcome.setReason(answer.reason);
    welcome.setFinal(answer.final);
    welcome.setNumber(answer.number);
  });
}

void supervisor_state::tell_members() {
  if (members_.empty()) return;
  const auto peers = messages::cluster_peers::build([&](schema::ClusterPeers::Builder builder) {
    builder.setSerial(serial_);
    auto nodes = builder.initNodes(static_cast<unsigned>(membership_->members().size()));
    unsigned i = 0;
    for (const auto& [number, member] : membership_->members()) write(nodes[i++], number, member.address);
  });
  for (const auto& [number, member] : members_)
    self_->send(member, peers, peers_.conductor, peers_.admission);
}

void supervisor_state::take_report(const messages::node_report& report) {
  const auto number = report.read()->getNumber();
  if (members_.contains(number)) reports_[number] = report;
}

messages::drain_answer supervisor_state::drain_node(const messages::drain_node& drain) {
  const auto number = drain.read()->getNumber();
  std::string reason;
  if (!is_head())
    reason = "this node is not the head of a cluster";
  else if (!members_.contains(number))
    reason = number == 0 ? "node 0 is the head: end it to end the cluster"
                         : "there is no node " + std::to_string(number);
  else
    self_->send(peers_.conductor, drain);
  return messages::drain_answer::build([&](schema::DrainAnswer::Builder answer) {
    answer.setAccepted(reason.empty());
    answer.setReason(reason);
  });
}

bool supervisor_state::member_down(const caf::actor_addr& who) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const auto& entry) { return entry.second.address() == who; });
  if (found == members_.end()) return false;
  membership_->leave(found->first);
  reports_.erase(found->first);
  members_.erase(found);
  tell_members();
  return true;
}

// -- a member
// -----------------------------------------------------------------------------------------------------

void supervisor_state::look_for_head() {
  const auto& join = factory_->options().cluster.join;
  if (looking_ || ending_ != ending::no || progress_.state == node_state::refused) return;
  looking_ = true;
  const auto& address = join[next_join_++ % join.size()];
  self_
      ->request(self_->system().openssl_manager().actor_handle(), connect_timeout, caf::connect_atom::value,
                address.host, address.port)
      .then(
          [this](const caf::node_id&, const caf::strong_actor_ptr& door, const std::set<std::string>&) {
            if (door)
              say_hello(caf::actor_cast<messages::node_door_actor>(door));
            else
              looking_ = false;
          },
          [this, address](const caf::error& error) {
            looking_ = false;
            progress_.text = text_of(address) + ": " + self_->system().render(error);
          });
}

void supervisor_state::say_hello(const messages::node_door_actor& door) {
  const auto model = identity();
  const auto& cluster = factory_->options().cluster;
  const auto hello = messages::node_hello::build([&](schema::NodeHello::Builder builder) {
    builder.setProtocol(messages::protocol_version);
    builder.setIncarnation(first_incarnation_);
    builder.setName(cluster.name);
    builder.setRoles(cluster.roles);
    builder.setNumber(number_);
    auto identity = builder.initModel();
    identity.setFingerprint(model.fingerprint);
    identity.setNumerics(model.numerics);
    identity.setFormatVersion(model.format_version);
    identity.setBlockTokens(model.block_tokens);
    write(builder.initAddress(), number_, address_);
  });
  self_->request(door, hello_timeout, hello, messages::node_member_actor(self_))
      .then([this, door](const messages::node_welcome& welcome) { welcomed(door, welcome); },
            [this](const caf::error& error) {
              looking_ = false;
              progress_.text = self_->system().render(error);
            });
}

void supervisor_state::welcomed(const messages::node_door_actor& door,
                                const messages::node_welcome& welcome) {
  looking_ = false;
  const auto given = welcome.read();
  if (!given->getAccepted()) {
    progress_.text = given->getReason();
    if (given->getFinal()) progress_.state = node_state::refused;
    return;
  }
  head_ = door;
  self_->monitor(door);
  if (given->getNumber() != number_ && !children_.empty()) {
    // Another node has our number by now: our workers' names are taken, so they start anew.
    end_parts();
    children_.clear();
  }
  number_ = given->getNumber();
  if (children_.empty()) {
    if (auto problem = start_parts()) {
      progress_ = {node_state::refused, 0, *problem};
      return;
    }
  }
  progress_ = {node_state::running, port_, {}};
  introduce_all();
  note_others();
}

void supervisor_state::take_peers(const messages::cluster_peers& peers,
                                  const messages::conductor_actor& conductor,
                                  const messages::admission_controller_actor& admission) {
  if (is_head()) return;
  peers_ = {conductor, admission};
  nodes_ = peers;
  introduce_all();
  note_others();
}

void supervisor_state::note_others() {
  // Before the welcome is read we do not know our place among them.
  if (!nodes_ || number_ == 0) return;
  // Handles of others' workers come through the head, and so would all that is said to them: a connection of
  // our own is the straight way. The later of two nodes makes it.
  others_.clear();
  const auto nodes = nodes_.read();
  for (auto node : nodes->getNodes())
    if (node.getNumber() < number_) others_.push_back(address_of(node));
  std::erase_if(linked_, [&](const node_address& address) {
    return std::find(others_.begin(), others_.end(), address) == others_.end();
  });
  link_to_others();
}

void supervisor_state::link_to_others() {
  for (const auto& address : others_) {
    if (std::find(linked_.begin(), linked_.end(), address) != linked_.end()) continue;
    linked_.push_back(address);
    const auto again = [this, address] { std::erase(linked_, address); };
    self_
        ->request(self_->system().openssl_manager().actor_handle(), connect_timeout, caf::connect_atom::value,
                  address.host, address.port)
        .then(
            [this, again](const caf::node_id&, const caf::strong_actor_ptr& door,
                          const std::set<std::string>&) {
              if (!door) return again();
              self_->monitor(door);
              doors_[door->address()] = again;
            },
            [again](const caf::error&) { again(); });  // at the next tick
  }
}

bool supervisor_state::door_down(const caf::actor_addr& who) {
  if (head_ && head_.address() == who) {
    head_ = messages::node_door_actor();
    look_for_head();
    return true;
  }
  const auto found = doors_.find(who);
  if (found == doors_.end()) return false;
  found->second();
  doors_.erase(found);
  return true;
}

void supervisor_state::cluster_tick() {
  if (has_role(role_conductor)) {
    const auto& leadership = factory_->options().cluster.leadership;
    auto problem = try_to_lead();
    if (is_head() && leadership && !leadership->holds()) problem = "lost " + leadership->description();
    if (problem) progress_ = {node_state::refused, 0, *problem};
    return;
  }
  if (!head_) return look_for_head();
  link_to_others();
  self_->send(head_, messages::node_report::build([&](schema::NodeReport::Builder report) {
                report.setNumber(number_);
                report.setHealth(*own_health().read());
              }));
}

/// No new work comes any more, and what runs here goes on elsewhere.
void supervisor_state::leave() {
  moved_serial_ = serial_ + 2;  // of a question that is asked after the conductor has told its workers
  leave_end_ = factory_->clock()->now() + factory_->options().drain_limit;
  const auto ask = messages::drain_node::build([&](auto builder) { builder.setNumber(number_); });
  self_->request(head_, hello_timeout, ask)
      .then([](const messages::drain_answer&) {}, [](const caf::error&) {});
}

void supervisor_state::look_whether_moved() {
  if (ending_ != ending::draining) return;
  ask_everyone();
  bool busy = false;
  for (const auto& [which, child] : children_)
    busy =
        busy || (child.handle && (child.answered_serial < moved_serial_ || !child.status ||
                                  child.status.read()->getRunning() + child.status.read()->getWaiting() > 0));
  if (!busy || factory_->clock()->now() >= leave_end_) return end_children();
  self_->delayed_send(self_, moved_interval, moved_atom::value);
}

// -- what people are shown
// -----------------------------------------------------------------------------------------------------

void supervisor_state::take_cluster_health(const messages::health_report& report) {
  cluster_health_ = report;
}

messages::health_report supervisor_state::health() const {
  if (!is_head() && cluster_health_ && head_) return cluster_health_;
  auto own = own_health();
  if (is_head() && reports_.empty() && !address_.port) return own;
  const auto mine = own.read();
  std::string reason = mine->getReason();
  if (!is_head()) reason = "no head of the cluster: " + progress_.text;
  std::set<actor_kind> there;
  const auto note = [&](schema::ClusterStatus::Reader part) {
    for (auto actor : part.getActors()) there.insert(actor.getKind());
  };
  note(mine->getCluster());
  unsigned actors = mine->getCluster().getActors().size();
  std::uint32_t missing = mine->getCluster().getMissing();
  for (const auto& [number, report] : reports_) {
    const auto health = report.read()->getHealth();
    if (reason.empty() && !health.getHealthy())
      reason = "node " + std::to_string(number) + ": " + std::string(health.getReason());
    note(health.getCluster());
    actors += health.getCluster().getActors().size();
    missing += health.getCluster().getMissing();
  }
  if (reason.empty() && !there.contains(actor_kind::PREFILL_WORKER)) reason = "no prefill worker is there";
  if (reason.empty() && !there.contains(actor_kind::DECODE_WORKER)) reason = "no decode worker is there";
  return messages::health_report::build([&](schema::HealthReport::Builder merged) {
    merged.setHealthy(reason.empty());
    merged.setReason(reason);
    auto cluster = merged.initCluster();
    auto list = cluster.initActors(actors);
    auto restarts = cluster.initRestarts(actors);
    unsigned i = 0;
    const auto add = [&](schema::ClusterStatus::Reader part) {
      const auto counts = part.getRestarts();
      unsigned k = 0;
      for (auto actor : part.getActors()) {
        list.setWithCaveats(i, actor);
        restarts.set(i++, counts[k++]);
      }
    };
    add(mine->getCluster());
    for (const auto& [number, report] : reports_) {
      const auto view = report.read();
      add(view->getHealth().getCluster());
    }
    cluster.setMissing(missing);
    cluster.setStartedMilliseconds(mine->getCluster().getStartedMilliseconds());
  });
}

}  // namespace yolk::actors
