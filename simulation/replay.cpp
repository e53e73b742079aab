#include "simulation/replay.hpp"

#include <functional>
#include <optional>

#include "simulation/cluster.hpp"
#include "simulation/session.hpp"
#include "simulation/virtual_system.hpp"

namespace yolk::simulation {

namespace {

/// A request that has not ended so long after the last arrival never will.
constexpr auto patience = std::chrono::hours(48);
/// At the end, for what the actors still tell each other.
constexpr auto settling = std::chrono::seconds(120);

/// Reads one request ahead and begins its session at its time.
class arrivals {
 public:
  arrivals(trace_reader& trace, virtual_system& system, session_context& context)
      : trace_(trace), system_(system), context_(context) {}

  void plan_next() {
    auto read = trace_.next();
    if (!read) problem = read.error();
    done = !read || !*read;
    if (done) return;
    last = virtual_system::start() + (**read).arrival;
    system_.events().at(last, [this, request = std::move(**read)] {
      begin_session(system_.actors(), context_, request);
      plan_next();
    });
  }

  bool done = false;
  core::time_point last = virtual_system::start();
  std::optional<core::failure<errc>> problem;

 private:
  trace_reader& trace_;
  virtual_system& system_;
  session_context& context_;
};

}  // namespace

result<replay_result> replay(trace_reader& trace, const cluster_description& description) {
  replay_result done;
  done.results = std::make_unique<measurements>(virtual_system::start(), description.slo);
  virtual_system system;
  cluster actors(system, description, *done.results);
  session_context context{
      .admission = actors.admission(),
      .conductor = actors.conductor(),
      .incarnation = {1},
      .root = kvcache::make_root({.model = description.name, .block_tokens = description.block_tokens}),
      .clock = *system.clock(),
      .results = *done.results};
  arrivals source(trace, system, context);
  source.plan_next();
  bool late = false;
  system.run_until([&] {
    late = source.done && system.clock()->now() > source.last + patience;
    return late || (source.done && context.open_count == 0);
  });
  if (source.problem) return *source.problem;
  if (context.open_count > 0)
    return core::failure<errc>{errc::stuck,
                               std::to_string(context.open_count) + " requests have not ended within " +
                                   std::to_string(patience.count()) + " hours after the last arrival"};
  const auto end = system.clock()->now();
  done.end_seconds = done.results->seconds_since_start(end);
  done.sent_bytes = actors.links().sent_bytes();
  done.local_bytes = actors.links().local_bytes();
  system.run_until([&] { return system.clock()->now() > end + settling; });
  done.audit = actors.audit();
  done.messages = system.message_count();
  done.events = system.events().run_count();
  return done;
}

}  // namespace yolk::simulation
