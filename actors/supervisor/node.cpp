#include "actors/supervisor/node.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>

#include "actors/supervisor/cluster_identity.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "actors/supervisor/tls_error_queue.hpp"
#include "messages/wire.hpp"

namespace yolk::actors {

namespace {

constexpr auto heartbeat_interval = std::chrono::milliseconds(500);
constexpr auto hang_timeout = std::chrono::milliseconds(2500);

class system_config : public caf::actor_system_config {
 public:
  explicit system_config(const cluster_options& cluster) {
    load<caf::io::middleman>();
    set("scheduler.policy", caf::atom("sharing"));  // sleeps when idle; stealing polls
    if (!cluster.identity) return;
    keep_tls_failures_apart();
    load<caf::openssl::manager>();
    messages::add_wire_types(*this);
    openssl_certificate = cluster.identity->certificate_file();
    openssl_key = cluster.identity->key_file();
    openssl_cafile = cluster.identity->certificate_file();
    // A node that hangs is taken for dead after this; one that dies is noticed at once.
    set("middleman.heartbeat-interval", caf::timespan(heartbeat_interval));
    set("middleman.connection-timeout", caf::timespan(hang_timeout));
  }
};

class running final : public node {
 public:
  explicit running(const cluster_options& cluster)
      : identity_(cluster.identity), config_(cluster), system_(config_) {}
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
  std::shared_ptr<const cluster_identity> identity_;
  system_config config_;
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
