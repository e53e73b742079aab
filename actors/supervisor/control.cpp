#include "actors/supervisor/control.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>

#include "actors/conversions.hpp"
#include "actors/supervisor/node_system.hpp"

namespace yolk::actors {

namespace {

constexpr auto patience = std::chrono::seconds(10);
/// Fits every cluster: twice within the shortest --heartbeat-timeout, and patient with the longest interval.
/// Not oftener: when CAF 0.17.6 looks at its clock while a connection is being made, it takes the connection
/// for timed out (every 50 ms on a busy machine: 5 of 60 calls failed, every 500 ms: none of 120).
constexpr heartbeat_limits any_heartbeat{.interval = std::chrono::milliseconds(500), .timeout = patience};

core::failure<node_errc> failed(std::string text) {
  return core::failure<node_errc>{node_errc::no_answer, std::move(text)};
}

class control final : public cluster_control {
 public:
  explicit control(std::shared_ptr<const cluster_identity> identity)
      : config_(std::move(identity), any_heartbeat), system_(config_) {}

  node_result<core::void_t> connect(const std::vector<node_address>& heads) override {
    std::string problems;
    for (const auto& address : heads) {
      caf::scoped_actor self{system_};
      self->request(system_.openssl_manager().actor_handle(), patience, caf::connect_atom::value,
                    address.host, address.port)
          .receive(
              [&](const caf::node_id&, const caf::strong_actor_ptr& door, const std::set<std::string>&) {
                door_ = caf::actor_cast<messages::node_door_actor>(door);
              },
              [&](const caf::error& error) {
                problems += (problems.empty() ? "" : "; ") + address.host + ":" +
                            std::to_string(address.port) + ": " + system_.render(error);
              });
      if (door_) return core::void_t{};
    }
    return failed(problems);
  }

  node_result<cluster_view> status() override {
    const auto ask = messages::status_request::build([](auto) {});
    cluster_view view;
    std::string problem;
    caf::scoped_actor self{system_};
    self->request(door_, patience, ask)
        .receive([&](const messages::health_report& report) { view = view_of(report); },
                 [&](const caf::error& error) { problem = system_.render(error); });
    if (!problem.empty()) return failed(problem);
    return view;
  }

  node_result<core::void_t> drain(std::uint32_t node) override {
    const auto ask = messages::drain_node::build([&](auto builder) { builder.setNumber(node); });
    std::string problem;
    caf::scoped_actor self{system_};
    self->request(door_, patience, ask)
        .receive(
            [&](const messages::drain_answer& answer) {
              if (!answer.read()->getAccepted()) problem = answer.read()->getReason();
            },
            [&](const caf::error& error) { problem = system_.render(error); });
    if (!problem.empty()) return failed(problem);
    return core::void_t{};
  }

 private:
  static cluster_view view_of(const messages::health_report& report) {
    const auto given = report.read();
    cluster_view view{.healthy = given->getHealthy(), .reason = given->getReason(), .actors = {}};
    const auto cluster = given->getCluster();
    const auto restarts = cluster.getRestarts();
    unsigned index = 0;
    for (auto actor : cluster.getActors())
      view.actors.push_back({.node = core::node_of({actor.getId()}),
                             .kind = kind_name(actor.getKind()),
                             .id = actor.getId(),
                             .running = actor.getRunning(),
                             .waiting = actor.getWaiting(),
                             .blocks_used = actor.getBlocksUsed(),
                             .blocks_cached = actor.getBlocksCached(),
                             .blocks_total = actor.getBlocksTotal(),
                             .restarts = restarts[index++]});
    return view;
  }

  node_system_config config_;
  caf::actor_system system_;
  messages::node_door_actor door_;
};

}  // namespace

std::unique_ptr<cluster_control> cluster_control::start(std::shared_ptr<const cluster_identity> identity) {
  return std::make_unique<control>(std::move(identity));
}

}  // namespace yolk::actors
