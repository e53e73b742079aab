#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "actors/conversions.hpp"
#include "actors/http_gateway/choice.hpp"
#include "actors/http_gateway/generation_plan.hpp"
#include "core/clock.hpp"
#include "http/api_error.hpp"
#include "messages/interfaces.hpp"

namespace yolk::actors {

/// The life of a client's request as choices and the legs that work on them: who is tried where, what came,
/// what must be tried again. No messages are sent and no time is read here. Owned by a session; one thread.
class generation {
 public:
  /// A leg's life. `unplaced`: waits for someone to take it.
  enum class leg_state : std::uint8_t { unplaced, placed, ended };
  struct leg {
    leg_header header;
    std::uint32_t prompt = 0;
    std::uint32_t first_choice = 0;
    std::uint32_t choice_count = 1;
    leg_state state = leg_state::unplaced;
    bool admitted = false;     ///< a leg that replaces another goes to the conductor, not to admission
    bool answered = false;     ///< has delivered a token
    bool orphaned = false;     ///< its conductor is gone: no one will report its workers' end
    core::time_point heard{};  ///< when it was placed, or its last token came
  };
  struct arrival {
    std::uint32_t choice = 0;
    std::size_t token_count = 0;
    bool tokens_lost = false;  ///< nothing could be taken, and something never came
    bool first_of_prompt = false;
    std::uint64_t prompt_tokens = 0;  ///< with first_of_prompt
    std::uint64_t cached_tokens = 0;  ///< with first_of_prompt
  };
  /// What became of a failed leg: tried again by new legs (unplaced), or an end to the whole request.
  struct verdict {
    std::optional<http::api_error> give_up;
    bool resumed = false;
  };

  generation(const session_context& context, generation_plan plan, std::uint64_t request);

  /// nullopt: a late copy, or a leg that is no longer awaited.
  std::optional<arrival> accept(const messages::token_batch& batch, core::time_point now);
  verdict failed(const messages::leg_failed& failure);
  /// A fault that the session found out by itself: tries the leg's unfinished choices again.
  verdict fault(std::uint64_t leg_id, std::string_view reason);
  /// Tries again what went to a peer that is gone and may not have reached a worker. Not counted as a fault.
  void replace(std::uint64_t leg_id, bool admitted);
  [[nodiscard]] bool called_back(std::uint64_t leg_id) const { return called_back_.contains(leg_id); }

  [[nodiscard]] messages::generate_request request_of(const leg& which) const;
  [[nodiscard]] std::map<std::uint64_t, leg>& legs() { return legs_; }
  [[nodiscard]] std::vector<choice>& choices() { return choices_; }
  [[nodiscard]] const generation_plan& plan() const { return plan_; }
  /// All choices of the leg are finished.
  [[nodiscard]] bool complete(const leg& which) const;
  /// One of its choices ended here, by a stop string: its worker must be told.
  [[nodiscard]] bool stopped_early(const leg& which) const;
  /// Some of its tokens overtook others that are not here.
  [[nodiscard]] bool waits_for_tokens(const leg& which) const;
  [[nodiscard]] bool complete() const;
  [[nodiscard]] http::usage usage() const;

 private:
  void try_again(leg& old, bool admitted);
  void add_leg(leg fresh);

  const session_context& context_;
  generation_plan plan_;
  std::uint64_t request_;
  std::vector<choice> choices_;
  std::vector<std::uint32_t> faults_;  ///< per choice
  std::vector<bool> prompt_answered_;  ///< its cache hits were counted
  std::map<std::uint64_t, leg> legs_;
  std::set<std::uint64_t> called_back_;  ///< legs that replace() ended
  std::uint64_t cached_tokens_ = 0;
};

}  // namespace yolk::actors
