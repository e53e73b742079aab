// What a node shows of itself alone: its /metrics and /health.
#include <caf/all.hpp>

#include "actors/http_gateway/http_gateway.hpp"
#include "actors/supervisor/supervisor_state.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

std::optional<std::string> supervisor_state::open_monitor() {
  const auto& options = factory_->options();
  if (!options.metrics || monitor_) return std::nullopt;
  const auto port = monitor_port_ != 0 ? monitor_port_ : options.metrics->port;  // again where it was
  auto started =
      start_monitor(self_->system(), {.host = options.metrics->host, .port = port},
                    {factory_->model(), factory_->recorder(), factory_->clock(), next_incarnation()});
  if (!started) return "--metrics: " + started.error().message;
  monitor_ = started->broker;
  monitor_port_ = started->port;
  self_->monitor(monitor_);
  return std::nullopt;
}

void supervisor_state::tell_monitor() {
  if (!monitor_ && open_monitor()) return;  // the port is not free yet: at the next tick
  if (monitor_) caf::anon_send(monitor_, node_health());
}

messages::health_report supervisor_state::node_health() const {
  std::string reason;
  if (ending_ != ending::no)
    reason = "it is stopping";
  else if (!has_role(role_conductor) && !head_)
    reason = "no head of the cluster: " + progress_.text;
  auto own = own_health();
  if (reason.empty()) return own;
  return messages::health_report::build([&](schema::HealthReport::Builder report) {
    report.setHealthy(false);
    report.setReason(reason);
    report.setCluster(own.read()->getCluster());
  });
}

}  // namespace yolk::actors
