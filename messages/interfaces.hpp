#pragma once

#include <caf/typed_actor.hpp>

#include "messages/cluster.capnp.h"
#include "messages/generation.capnp.h"
#include "messages/http.capnp.h"
#include "messages/kv.capnp.h"
#include "messages/message.hpp"
#include "messages/placement.capnp.h"

// What each actor understands. Actors meet here and nowhere else: none includes another's files.
namespace yolk::messages {

using generate_request = message<schema::GenerateRequest>;
using token_batch = message<schema::TokenBatch>;
using leg_failed = message<schema::LegFailed>;
using leg_ended = message<schema::LegEnded>;
using cancel_leg = message<schema::CancelLeg>;
using prefill_order = message<schema::PrefillOrder>;
using prefill_ended = message<schema::PrefillEnded>;
using worker_load = message<schema::WorkerLoad>;
using reserve_blocks = message<schema::ReserveBlocks>;
using reservation_granted = message<schema::ReservationGranted>;
using keep_reservation = message<schema::KeepReservation>;
using release_reservation = message<schema::ReleaseReservation>;
using kv_handoff = message<schema::KvHandoff>;
using lookup_prefix = message<schema::LookupPrefix>;
using prefix_pinned = message<schema::PrefixPinned>;
using unpin_prefix = message<schema::UnpinPrefix>;
using want_prefix = message<schema::WantPrefix>;
using unwant_prefix = message<schema::UnwantPrefix>;
using offer_blocks = message<schema::OfferBlocks>;
using offer_done = message<schema::OfferDone>;
using cache_events = message<schema::CacheEvents>;
using snapshot_request = message<schema::SnapshotRequest>;
using cache_snapshot = message<schema::CacheSnapshot>;
using status_request = message<schema::StatusRequest>;
using actor_status = message<schema::ActorStatus>;
using cluster_status = message<schema::ClusterStatus>;
using actor_joined = message<schema::ActorJoined>;
using peers_changed = message<schema::PeersChanged>;
using health_report = message<schema::HealthReport>;
using node_hello = message<schema::NodeHello>;
using node_welcome = message<schema::NodeWelcome>;
using cluster_peers = message<schema::ClusterPeers>;
using node_report = message<schema::NodeReport>;
using drain_node = message<schema::DrainNode>;
using drain_answer = message<schema::DrainAnswer>;
using drain_worker = message<schema::DrainWorker>;
using http_request = message<schema::HttpRequest>;
using http_output = message<schema::HttpOutput>;
using http_gone = message<schema::HttpGone>;

/// An actor's own clockwork: sent to itself, delayed.
using tick_atom = caf::atom_constant<caf::atom("tick")>;

/// Everyone answers the supervisor's question how it is.
using status_source = caf::typed_actor<caf::replies_to<status_request>::with<actor_status>>;

/// The owner of one client request, within the gateway: where tokens and failures go.
using session_actor = caf::typed_actor<caf::reacts_to<token_batch>, caf::reacts_to<leg_failed>>;

/// What workers and shards tell the conductor.
using conductor_reports = caf::typed_actor<caf::reacts_to<prefill_ended>, caf::reacts_to<worker_load>,
                                           caf::reacts_to<cache_events>>;

using cache_shard_actor =
    status_source::extend<caf::replies_to<lookup_prefix, generate_request>::with<prefix_pinned>,
                          caf::reacts_to<unpin_prefix>, caf::reacts_to<want_prefix, generate_request>,
                          caf::reacts_to<unwant_prefix>, caf::replies_to<offer_blocks>::with<offer_done>,
                          caf::replies_to<snapshot_request>::with<cache_snapshot>,
                          caf::reacts_to<peers_changed, conductor_reports>>;

using decode_worker_actor = status_source::extend<
    caf::replies_to<reserve_blocks, generate_request, session_actor>::with<reservation_granted>,
    caf::reacts_to<keep_reservation>, caf::reacts_to<release_reservation>,
    caf::reacts_to<kv_handoff, session_actor, cache_shard_actor>, caf::reacts_to<drain_worker>,
    caf::reacts_to<cancel_leg>, caf::reacts_to<peers_changed, conductor_reports>>;

using prefill_worker_actor =
    status_source::extend<caf::reacts_to<prefill_order, generate_request, session_actor, decode_worker_actor,
                                         cache_shard_actor, cache_shard_actor>,
                          caf::reacts_to<cancel_leg>, caf::replies_to<snapshot_request>::with<cache_snapshot>,
                          caf::reacts_to<peers_changed, conductor_reports>>;

/// Where the gateway's sessions place and end their legs.
using conductor_actor =
    status_source::extend<caf::reacts_to<generate_request, session_actor>, caf::reacts_to<leg_ended>,
                          caf::reacts_to<prefill_ended>, caf::reacts_to<worker_load>,
                          caf::reacts_to<cache_events>, caf::reacts_to<actor_joined, prefill_worker_actor>,
                          caf::reacts_to<actor_joined, decode_worker_actor>,
                          caf::reacts_to<actor_joined, cache_shard_actor>, caf::reacts_to<drain_node>>;

using admission_controller_actor =
    status_source::extend<caf::reacts_to<generate_request, session_actor>, caf::reacts_to<leg_ended>,
                          caf::reacts_to<peers_changed, conductor_actor>>;

/// A node, as the head of its cluster knows it.
using node_member_actor =
    caf::typed_actor<caf::reacts_to<cluster_peers, conductor_actor, admission_controller_actor>,
                     caf::reacts_to<health_report>>;

/// What a node shows at its door. The head answers hellos; others refuse them.
using node_door_actor =
    caf::typed_actor<caf::replies_to<node_hello, node_member_actor>::with<node_welcome>,
                     caf::reacts_to<node_report>, caf::replies_to<drain_node>::with<drain_answer>,
                     caf::replies_to<status_request>::with<health_report>>;

// The gateway is a CAF broker, dynamically typed. It understands:
//   (peers_changed, admission_controller_actor, conductor_actor)   from the supervisor, at every change
//   (health_report)                                                from the supervisor, twice a second
//   (status_request) -> actor_status
//   (http_output)                                                  from its sessions

}  // namespace yolk::messages
