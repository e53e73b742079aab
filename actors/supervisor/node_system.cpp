#include "actors/supervisor/node_system.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>

#include "actors/supervisor/tls_error_queue.hpp"
#include "messages/wire.hpp"

namespace yolk::actors {

node_system_config::node_system_config(std::shared_ptr<const cluster_identity> identity,
                                       heartbeat_limits heartbeat)
    : identity_(std::move(identity)) {
  load<caf::io::middleman>();
  set("scheduler.policy", caf::atom("sharing"));  // sleeps when idle; stealing polls
  if (!identity_) return;
  keep_tls_failures_apart();
  load<caf::openssl::manager>();
  messages::add_wire_types(*this);
  openssl_certificate = identity_->certificate_file();
  openssl_key = identity_->key_file();
  openssl_cafile = identity_->certificate_file();
  set("middleman.heartbeat-interval", caf::timespan(heartbeat.interval));
  set("middleman.connection-timeout", caf::timespan(heartbeat.timeout));
}

}  // namespace yolk::actors
