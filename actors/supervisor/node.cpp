#include "actors/supervisor/node.hpp"

#include <caf/all.hpp>

#include "actors/supervisor/node_system.hpp"
#include "actors/supervisor/supervisor.hpp"

namespace yolk::actors {

namespace {

class running final : public node {
 public:
  explicit running(const cluster_options& cluster)
      : config_(cluster.identity, cluster.heartbeat), system_(config_) {}
  ~running() override { stop(); }

  node_result<core::void_t> begin(std::shared_ptr<const worker_factory> factory) {
    auto started = start_node(system_, std::move(factory));
    if (!started) return started.error();
    started_ = std::move(started).value();
    supervisor_ = caf::actor_cast<caf::actor_addr>(started_.supervisor);
    return core::void_t{};
  }
  [[nodiscard]] std::uint16_t port() const override { return started_.port; }
  [[nodiscard]] std::uint16_t door_port() const override { return started_.door.port; }
  [[nodiscard]] std::uint16_t metrics_port() const override { return started_.metrics_port; }
  [[nodiscard]] node_progress progress() const override {
    node_progress now;
    if (!started_.supervisor) return now;
    caf::scoped_actor self{system_};
    self->request(started_.supervisor, std::chrono::seconds(5), progress_atom::value)
        .receive([&](const node_progress& answer) { now = answer; }, [](const caf::error&) {});
    return now;
  }
  void stop() override {
    if (!started_.supervisor) return;
    caf::anon_send(started_.supervisor, stop_atom::value);
    started_ = running_node();
    system_.await_all_actors_done();
  }
  void hurry() override {
    if (const auto supervisor = caf::actor_cast<supervisor_actor>(supervisor_))
      caf::anon_send(supervisor, stop_atom::value);
  }

 private:
  node_system_config config_;
  mutable caf::actor_system system_;
  running_node started_;
  caf::actor_addr supervisor_;  ///< weak: a handle would keep the actor's thread
};

}  // namespace

node_result<std::unique_ptr<node>> node::start(std::shared_ptr<const worker_factory> factory) {
  auto made = std::make_unique<running>(factory->options().cluster);
  auto begun = made->begin(std::move(factory));
  if (!begun) return begun.error();
  return std::unique_ptr<node>(std::move(made));
}

}  // namespace yolk::actors
