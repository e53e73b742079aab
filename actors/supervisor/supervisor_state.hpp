#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/conversions.hpp"
#include "actors/supervisor/supervisor.hpp"

namespace yolk::actors {

using restart_atom = caf::atom_constant<caf::atom("restart")>;
using begin_atom = caf::atom_constant<caf::atom("begin")>;

using supervisor_internal_actor =
    supervisor_actor::extend<caf::reacts_to<messages::tick_atom>,
                             caf::reacts_to<restart_atom, std::uint16_t, std::uint32_t>,
                             caf::replies_to<begin_atom>::with<std::uint16_t, std::string>>;

/// Owns the node's children. Lives in the actor, used by its handlers alone.
class supervisor_state {
 public:
  supervisor_state(supervisor_internal_actor::pointer self, std::shared_ptr<const worker_factory> factory);

  /// Starts everything; the gateway's port and an empty text, or why not.
  [[nodiscard]] caf::result<std::uint16_t, std::string> begin();
  void child_down(const caf::down_msg& down);
  void restart(std::uint16_t kind, std::uint32_t id);
  void tick();
  /// Lets the gateway finish what runs, for a while, then has it tell those who are left; then ends everyone.
  /// Called again, it goes on to the next of these at once.
  void stop();
  [[nodiscard]] caf::strong_actor_ptr find(std::uint16_t kind, std::uint32_t id) const;
  [[nodiscard]] messages::health_report health() const;

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

  /// Starts the actor for a part; what went wrong, or nothing.
  [[nodiscard]] std::optional<std::string> start(part which);
  void introduce(part which);
  void introduce_all();
  void ask_everyone();
  void cut_off();
  void end_children();
  void tell_gateway();
  [[nodiscard]] core::incarnation next_incarnation() { return {++last_incarnation_}; }
  template <class Handle>
  [[nodiscard]] Handle handle_of(actor_kind kind, std::uint32_t id) const;

  supervisor_internal_actor::pointer self_;
  std::shared_ptr<const worker_factory> factory_;
  std::map<part, child> children_;
  std::uint16_t port_ = 0;
  std::uint64_t last_incarnation_;
  std::uint64_t serial_ = 0;
  core::time_point started_;
  enum class ending : std::uint8_t { no, draining, cutting_off, ended } ending_ = ending::no;
};

}  // namespace yolk::actors
