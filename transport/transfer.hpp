#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>

#include "transport/range.hpp"
#include "transport/transfer_engine.hpp"

namespace yolk::transport {

struct peer;

enum class transfer_direction { put, get };

/// waiting: in its peer's queue, unknown to UCX. issuing: its slices are handed to UCX. confirming: all of
/// them are, and so is the question whether the region still lives. aborting: it has failed, and UCX may
/// still hold its bytes. finished: its completion is about to run.
enum class transfer_state { waiting, issuing, confirming, aborting, finished };

[[nodiscard]] constexpr bool may_follow(transfer_state from, transfer_state to) {
  using enum transfer_state;
  switch (from) {
    case waiting:
      return to == issuing || to == finished;
    case issuing:
      return to == confirming || to == aborting || to == finished;
    case confirming:
      return to == aborting || to == finished;
    case aborting:
      return to == finished;
    case finished:
      return false;
  }
  return false;
}

/// One put or get from its acceptance to its completion. Lives in the engine's list; the engine's thread
/// alone touches it.
struct transfer {
  transfer_direction direction = transfer_direction::put;
  range_cursor cursor;
  std::uint64_t bytes = 0;
  core::time_point submitted;
  core::time_point deadline;
  transfer_engine::completion done;
  peer* target = nullptr;  ///< none once it is aborting: the peer may be forgotten before UCX is done
  std::uint64_t open_operations = 0;
  std::optional<core::failure<errc>> failed;
  std::list<transfer>::iterator self;
  std::optional<std::multimap<core::time_point, transfer*>::iterator> timer;

  [[nodiscard]] transfer_state state() const { return state_; }
  /// The one way to another state; checked.
  void become(transfer_state next);

 private:
  transfer_state state_ = transfer_state::waiting;
};

}  // namespace yolk::transport
