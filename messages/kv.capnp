@0xb1a0c3f0d5e7a104;
# Where KV goes: prefill worker -> decode worker, workers <-> cache shards. Payloads move over UCX, never here.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("yolk::messages::schema");
using Common = import "common.capnp";

struct ReserveBlocks {
  # Prefill worker -> decode worker when the prefill is about to begin, beside the GenerateRequest and the session.
  # Answered by a ReservationGranted, at once or as soon as there is room. From then on the decode worker answers for
  # the leg: where neither a handoff nor a release comes, it tells the session.
  header @0 :Common.RequestHeader;
}

struct ReservationGranted {
  header @0 :Common.RequestHeader;
  blocks @1 :Data;               # UInt32 little-endian: decode worker's blocks, one per block of the sequence
  residentBlocks @2 :UInt32;     # the first so many hold their KV already: not to be written
  region @3 :Common.Region;
  leaseMilliseconds @4 :UInt32;  # from the grant; renewed by KeepReservation; no write may be started after it
}

struct KeepReservation {
  header @0 :Common.RequestHeader;
}

struct ReleaseReservation {
  # Prefill worker -> decode worker: nothing will be handed over; all its writes have ended.
  header @0 :Common.RequestHeader;
}

struct KvHandoff {
  # Prefill worker -> decode worker, beside the handles of session and cache shard: all KV is at its
  # place, the sequence may join.
  header @0 :Common.RequestHeader;
  choices @1 :List(Choice);      # those that are not finished after their first token
  checksums @2 :Data;            # UInt64 little-endian [block][layer], for blocks residentBlocks ..; a block that the
                                 # prompt fills only in part is hashed over its whole length, as it was pushed
  poolCachedTokens @3 :UInt32;   # what that shard is known to have already

  struct Choice {
    choice @0 :UInt32;           # absolute index
    firstToken @1 :UInt32;       # sampled by the prefill worker, already sent to the session
  }
}

struct LookupPrefix {
  # Prefill worker -> cache shard, beside the GenerateRequest.
  header @0 :Common.RequestHeader;
  skipTokens @1 :UInt32;         # the worker has these itself
  maxTokens @2 :UInt32;
}

struct PrefixPinned {
  header @0 :Common.RequestHeader;
  pin @1 :UInt64;                # 0 = nothing found
  firstToken @2 :UInt32;         # position of the first block below
  slots @3 :Data;                # UInt32 little-endian
  headers @4 :List(Common.BlockHeader);
  region @5 :Common.Region;
}

struct WantPrefix {
  # Who has a request in its queue -> cache shard, beside the GenerateRequest; again while it waits.
  header @0 :Common.RequestHeader;
  maxTokens @1 :UInt32;
}

struct UnwantPrefix {
  # Its turn has come, or it ended.
  header @0 :Common.RequestHeader;
}

struct UnpinPrefix {
  pin @0 :UInt64;
}

struct OfferBlocks {
  # Worker -> cache shard. The blocks stay as they are in the worker's region until OfferDone, or until the worker's
  # own deadline for it.
  offer @0 :UInt64;              # the worker's number
  worker @1 :UInt32;
  workerIncarnation @2 :UInt64;
  root @3 :Common.BlockKey;
  blocks @4 :Data;               # UInt32 little-endian
  headers @5 :List(Common.BlockHeader);
  region @6 :Common.Region;
}

struct OfferDone {
  offer @0 :UInt64;
  storedBlocks @1 :UInt32;
}

struct CacheEvents {
  # Holder -> conductor. Numbered from 1 within an incarnation.
  holder @0 :UInt32;
  incarnation @1 :UInt64;
  sequence @2 :UInt64;
  changes @3 :List(Change);      # in order

  struct Change {
    stored @0 :Bool;             # else evicted
    key @1 :Common.BlockKey;
  }
}

struct SnapshotRequest {
  # Conductor -> holder.
}

struct CacheSnapshot {
  # Holder -> conductor: everything it has, as of event number `sequence`.
  holder @0 :UInt32;
  incarnation @1 :UInt64;
  sequence @2 :UInt64;
  keys @3 :Data;                 # (UInt64 high, UInt64 low) pairs, little-endian
}
