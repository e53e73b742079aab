#pragma once

#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>
#include <functional>
#include <memory>

namespace yolk::actors {

/// Work too long for a thread that others wait for (parsing and tokenising megabytes). The session that made
/// it reads the outcome when it comes back; until then only `abandoned` may be touched.
struct heavy_job {
  std::function<void()> work;
  std::atomic<bool> abandoned{false};  ///< the client left: not worth doing
  bool done = false;                   ///< false when abandoned, or when the work threw
};
using heavy_job_ptr = std::shared_ptr<heavy_job>;

}  // namespace yolk::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(yolk::actors::heavy_job_ptr)

namespace yolk::actors {

/// A thread of its own that does such jobs one after another: long requests wait for each other, never short
/// ones for long ones, and a flood of long ones costs one thread.
using heavy_lane_actor = caf::typed_actor<caf::replies_to<heavy_job_ptr>::with<heavy_job_ptr>>;
heavy_lane_actor spawn_heavy_lane(caf::actor_system& system);

}  // namespace yolk::actors
