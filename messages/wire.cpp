#include "messages/wire.hpp"

#include <caf/all.hpp>
#include <string>

#include "messages/interfaces.hpp"

namespace yolk::messages {

void add_wire_types(caf::actor_system_config& config) {
#define YOLK_ADD(type) config.add_message_type<type>("yolk." #type)
  YOLK_ADD(generate_request);
  YOLK_ADD(token_batch);
  YOLK_ADD(leg_failed);
  YOLK_ADD(leg_ended);
  YOLK_ADD(cancel_leg);
  YOLK_ADD(prefill_order);
  YOLK_ADD(prefill_ended);
  YOLK_ADD(worker_load);
  YOLK_ADD(reserve_blocks);
  YOLK_ADD(reservation_granted);
  YOLK_ADD(keep_reservation);
  YOLK_ADD(release_reservation);
  YOLK_ADD(kv_handoff);
  YOLK_ADD(lookup_prefix);
  YOLK_ADD(want_prefix);
  YOLK_ADD(unwant_prefix);
  YOLK_ADD(prefix_pinned);
  YOLK_ADD(unpin_prefix);
  YOLK_ADD(offer_blocks);
  YOLK_ADD(offer_done);
  YOLK_ADD(cache_events);
  YOLK_ADD(snapshot_request);
  YOLK_ADD(cache_snapshot);
  YOLK_ADD(status_request);
  YOLK_ADD(actor_status);
  YOLK_ADD(cluster_status);
  YOLK_ADD(actor_joined);
  YOLK_ADD(peers_changed);
  YOLK_ADD(health_report);
  YOLK_ADD(node_hello);
  YOLK_ADD(node_welcome);
  YOLK_ADD(cluster_peers);
  YOLK_ADD(node_report);
  YOLK_ADD(drain_node);
  YOLK_ADD(drain_answer);
  YOLK_ADD(drain_worker);
  YOLK_ADD(session_actor);
  YOLK_ADD(conductor_reports);
  YOLK_ADD(cache_shard_actor);
  YOLK_ADD(decode_worker_actor);
  YOLK_ADD(prefill_worker_actor);
  YOLK_ADD(conductor_actor);
  YOLK_ADD(admission_controller_actor);
  YOLK_ADD(node_member_actor);
  YOLK_ADD(node_door_actor);
#undef YOLK_ADD
}

}  // namespace yolk::messages
