#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/conversions.hpp"
#include "actors/supervisor/supervisor.hpp"

namespace yolk::actors {

using restart_atom = caf::atom_constant<caf::atom("restart")>;
/// To itself while it leaves: has what its workers did moved elsewhere?
using moved_atom = caf::atom_constant<caf::atom("moved")>;
using begin_atom = caf::atom_constant<caf::atom("begin")>;

using supervisor_internal_actor = supervisor_actor::extend<
    caf::reacts_to<messages::tick_atom>, caf::reacts_to<restart_atom, std::uint16_t, std::uint32_t>,
    caf::reacts_to<moved_atom>,
    caf::replies_to<begin_atom>::with<std::uint16_t, std::string, std::uint16_t, std::uint16_t>>;

/// Owns the node's children. Lives in the actor, used by its handlers alone.
class supervisor_state {
 public:
  supervisor_state(supervisor_internal_actor::pointer self, std::shared_ptr<const worker_factory> factory);

  /// Opens the door and starts everything (a node that joins: starts to look for its head); the gateway's
  /// port, an empty text, the door's port and that of /metrics, or why not.
  [[nodiscard]] caf::result<std::uint16_t, std::string, std::uint16_t, std::uint16_t> begin();
  void child_down(const caf::down_msg& down);
  void restart(std::uint16_t kind, std::uint32_t id);
  void tick();
  /// Lets the gateway finish what runs, for a while, then has it tell those who are left; then ends everyone.
  /// Called again, it goes on to the next of these at once.
  void stop();
  [[nodiscard]] caf::strong_actor_ptr find(std::uint16_t kind, std::uint32_t id) const;
  /// Of the whole cluster, as far as this node knows it.
  [[nodiscard]] messages::health_report health() const;
  [[nodiscard]] node_progress progress() const { return progress_; }

  // Among other nodes: supervisor_cluster.cpp.
  messages::node_welcome take_hello(const messages::node_hello& hello,
                                    const messages::node_member_actor& member);
  void take_peers(const messages::cluster_peers& peers, const messages::conductor_actor& conductor,
                  const messages::admission_controller_actor& admission);
  void take_report(const messages::node_report& report);
  messages::drain_answer drain_node(const messages::drain_node& drain);
  void look_whether_moved();
  void take_cluster_health(const messages::health_report& report);

 private:
  using actor_kind = messages::schema::ActorKind;
  using part = std::pair<std::uint16_t, std::uint32_t>;  ///< kind, id
  struct child {
    caf::strong_actor_ptr handle;
    core::incarnation incarnation;
    std::uint32_t restarts = 0;
    core::time_point last_start{};
    std::uint32_t quick_deaths = 0;  ///< in a row: each doubles the wait before the next start
    messages::actor_status status;   ///< the last answer
    std::uint64_t answered_serial = 0;
  };

  /// Whom this node's actors call on, wherever that lives.
  struct node_peers {
    messages::conductor_actor conductor;
    messages::admission_controller_actor admission;
  };

  [[nodiscard]] bool has_role(node_role role) const {
    return (factory_->options().cluster.roles & role) != 0;
  }
  [[nodiscard]] bool is_head() const { return membership_.has_value(); }
  [[nodiscard]] core::worker_id worker(std::uint32_t local) const {
    return {number_ * core::workers_per_node + local};
  }
  [[nodiscard]] std::optional<std::string> start_parts();
  [[nodiscard]] messages::health_report own_health() const;
  // supervisor_monitor.cpp
  [[nodiscard]] std::optional<std::string> open_monitor();
  void tell_monitor();
  /// Of this node alone: its actors, and whether it is in the cluster.
  [[nodiscard]] messages::health_report node_health() const;
  // supervisor_cluster.cpp
  [[nodiscard]] model_identity identity() const;
  [[nodiscard]] std::optional<std::string> open_door();
  /// Becomes the head, if this is the node for it and its time has come; what went wrong, or nothing.
  [[nodiscard]] std::optional<std::string> try_to_lead();
  void tell_members();
  [[nodiscard]] bool member_down(const caf::actor_addr& who);
  void look_for_head();
  void say_hello(const messages::node_door_actor& door);
  void welcomed(const messages::node_door_actor& door, const messages::node_welcome& welcome);
  void note_others();
  void link_to_others();
  [[nodiscard]] bool door_down(const caf::actor_addr& who);
  void cluster_tick();
  void leave();

  /// The number, within the node, of a part that holds blocks.
  [[nodiscard]] std::uint32_t holder_of(part which) const;
  /// Starts the actor for a part; what went wrong, or nothing.
  [[nodiscard]] std::optional<std::string> start(part which);
  void introduce(part which);
  void introduce_all();
  void ask_everyone();
  void cut_off();
  void end_children();
  void end_parts();
  void tell_gateway();
  [[nodiscard]] core::incarnation next_incarnation() { return {++last_incarnation_}; }
  template <class Handle>
  [[nodiscard]] Handle handle_of(actor_kind kind, std::uint32_t id) const;

  supervisor_internal_actor::pointer self_;
  std::shared_ptr<const worker_factory> factory_;
  std::map<part, child> children_;
  std::uint16_t port_ = 0;
  caf::actor monitor_;  ///< answers --metrics; null: none, or it died
  std::uint16_t monitor_port_ = 0;
  std::uint64_t last_incarnation_;
  std::uint64_t serial_ = 0;
  core::time_point started_;
  enum class ending : std::uint8_t { no, draining, cutting_off, ended } ending_ = ending::no;

  node_progress progress_;
  node_peers peers_;
  node_address address_;      ///< of the door
  std::uint32_t number_ = 0;  ///< in the cluster
  std::uint64_t first_incarnation_;
  // the head's
  std::optional<membership> membership_;
  std::map<std::uint32_t, messages::node_member_actor> members_;  ///< by number
  std::map<std::uint32_t, messages::node_report> reports_;
  // a member's
  messages::node_door_actor head_;  ///< null: none now
  bool looking_ = false;
  std::size_t next_join_ = 0;
  messages::cluster_peers nodes_;
  std::vector<node_address> others_;                        ///< to connect to
  std::vector<node_address> linked_;                        ///< connected, or about to be
  std::map<caf::actor_addr, std::function<void()>> doors_;  ///< what to do when they close
  messages::health_report cluster_health_;
  core::time_point leave_end_{};
  std::uint64_t moved_serial_ = 0;
};

}  // namespace yolk::actors
