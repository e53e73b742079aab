@0xb1a0c3f0d5e7a101;
# What every conversation shares. Ordinals are append-only.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("yolk::messages::schema");

struct RequestHeader {
  # Rides on every request-scoped message.
  legId @0 :UInt64;          # set by the gateway's session: one try at one prompt; a retry has a new one
  requestId @1 :UInt64;      # set by the gateway: the client's request that the leg belongs to
  attempt @2 :UInt32;        # 0 for the first try; counts re-placements after faults and preemptions
  senderIncarnation @3 :UInt64;  # of the actor that sends this message
}

struct BlockKey {
  high @0 :UInt64;
  low @1 :UInt64;
}

struct Region {
  # transport::region_descriptor
  owner @0 :UInt64;          # incarnation of the actor whose engine it is
  baseAddress @1 :UInt64;
  lengthBytes @2 :UInt64;
  remoteKey @3 :Data;
  workerAddress @4 :Data;
}

struct BlockHeader {
  # kvcache::block_header, without the tokens (both sides have them)
  key @0 :BlockKey;
  parent @1 :BlockKey;
  formatVersion @2 :UInt32;
  keyRotationBase @3 :Float32;
  firstPosition @4 :UInt32;
  codec @5 :UInt8;
  layerChecksums @6 :Data;   # UInt64 little-endian, one a layer
  writer @7 :UInt64;         # incarnation
  generation @8 :UInt32;
  tokens @9 :Data;           # UInt32 little-endian, exactly the block's
}
