@0xb1a0c3f0d5e7a105;
# Who is there and how they are: supervisor, and what people are shown.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("yolk::messages::schema");

enum ActorKind {
  supervisor @0;
  httpGateway @1;
  admissionController @2;
  conductor @3;
  prefillWorker @4;
  decodeWorker @5;
  cacheShard @6;
}

struct StatusRequest {
  serial @0 :UInt64;             # copied into the answer
}

struct ActorStatus {
  # Everyone -> supervisor -> gateway (/health, /cluster). Absent numbers are 0.
  serial @0 :UInt64;
  kind @1 :ActorKind;
  id @2 :UInt32;
  incarnation @3 :UInt64;
  running @4 :UInt32;
  waiting @5 :UInt32;
  blocksTotal @6 :UInt32;
  blocksUsed @7 :UInt32;         # held by sequences
  blocksCached @8 :UInt32;       # held by the prefix cache alone
  blockBytes @9 :UInt64;
  hitTokens @10 :UInt64;
  missTokens @11 :UInt64;
  evictedBlocks @12 :UInt64;
  stepsDone @13 :UInt64;         # grows while work is done
  hasWork @14 :Bool;             # work that could be done now
  idleMilliseconds @15 :UInt64;  # since the last progress, while hasWork
  tokensDone @16 :UInt64;
  transfers @17 :UInt64;
  transferBytes @18 :UInt64;
  transferFailures @19 :UInt64;
  preemptions @20 :UInt64;
  audit @21 :Text;               # empty when accounts are in order at rest
}

struct ClusterStatus {
  # Supervisor -> gateway.
  actors @0 :List(ActorStatus);
  restarts @1 :List(UInt32);     # parallel to actors
  missing @2 :UInt32;            # actors that did not answer in time
  startedMilliseconds @3 :UInt64;  # since the node started
}

struct ActorJoined {
  # Supervisor -> conductor, beside the new actor's handle: after a start and after every restart.
  kind @0 :ActorKind;
  id @1 :UInt32;
  incarnation @2 :UInt64;
  capacityTokens @3 :UInt64;     # KV that fits into the actor's blocks
}

struct PeersChanged {
  # Supervisor -> everyone who calls on others, beside their handles: forget the old ones.
  serial @0 :UInt64;
}

struct HealthReport {
  # Supervisor -> gateway, twice a second: what /health and /cluster answer from.
  healthy @0 :Bool;
  reason @1 :Text;               # why not
  cluster @2 :ClusterStatus;
}

struct ModelIdentity {
  # What must be equal on all nodes for their KV and tokens to be interchangeable.
  fingerprint @0 :Text;          # of configuration, tokenizer and weights
  numerics @1 :Text;             # gpu::platform::numerics()
  formatVersion @2 :UInt32;      # of stored blocks
  blockTokens @3 :UInt32;
}

struct NodeHello {
  # Node -> head (the node with the conductor), beside the node's own handle; again after every loss of the head.
  protocol @0 :UInt32;           # version of these messages
  incarnation @1 :UInt64;        # of the node's supervisor
  name @2 :Text;                 # for people
  roles @3 :UInt32;              # actors::node_roles
  number @4 :UInt32;             # the one it had; 0 = none yet
  model @5 :ModelIdentity;
  address @6 :NodeAddress;       # where its door is
}

struct NodeAddress {
  number @0 :UInt32;             # 0 = the head
  host @1 :Text;
  port @2 :UInt16;
}

struct NodeWelcome {
  # Head -> node.
  accepted @0 :Bool;
  reason @1 :Text;               # why not
  final @2 :Bool;                # with a refusal: asking again is of no use
  number @3 :UInt32;             # unique in the cluster; names the node's workers
}

struct ClusterPeers {
  # Head -> every node at every change, beside the handles of conductor and admission controller.
  serial @0 :UInt64;
  nodes @1 :List(NodeAddress);   # all but the head
}

struct NodeReport {
  # Node -> head, as often as it asks its actors.
  number @0 :UInt32;
  health @1 :HealthReport;
}

struct DrainNode {
  # Operator or leaving node -> head -> conductor: nothing more is placed on the node's workers, and what its decode
  # workers generate goes on elsewhere.
  number @0 :UInt32;
}

struct DrainAnswer {
  accepted @0 :Bool;
  reason @1 :Text;               # why not
}

struct DrainWorker {
  # Conductor -> decode worker: give up all sequences, now and later; their sessions have them resumed.
}
