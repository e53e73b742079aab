#include "actors/http_gateway/heavy_lane.hpp"

#include <caf/all.hpp>

namespace yolk::actors {

namespace {

heavy_lane_actor::behavior_type heavy_lane(heavy_lane_actor::pointer) {
  return {[](const heavy_job_ptr& job) {
    try {
      if (!job->abandoned) {
        job->work();
        job->done = true;
      }
    } catch (...) {
      // One job's exception must not cost the others their lane: the session answers 500 for a job not done.
      job->done = false;
    }
    return job;
  }};
}

}  // namespace

heavy_lane_actor spawn_heavy_lane(caf::actor_system& system) {
  return system.spawn<caf::detached>(heavy_lane);
}

}  // namespace yolk::actors
