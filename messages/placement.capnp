@0xb1a0c3f0d5e7a103;
# Conductor <-> workers.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("yolk::messages::schema");
using Common = import "common.capnp";

struct PrefillOrder {
  # Conductor -> prefill worker, beside the GenerateRequest and the handles of session, decode worker, the cache shard
  # to pull from (null: none) and the one that keeps the prompt's KV (null: none does).
  header @0 :Common.RequestHeader;
  poolCachedTokens @1 :UInt32;   # what the conductor's index says the first has of this prompt; 0 = do not ask it
  keptTokens @2 :UInt32;         # what it says the second has
}

struct PrefillEnded {
  # Prefill worker -> conductor: the leg left the worker (handed over, failed or cancelled). Sent exactly once a leg.
  header @0 :Common.RequestHeader;
  worker @1 :UInt32;
  computedTokens @2 :UInt32;
  computeSeconds @3 :Float64;
}

struct WorkerLoad {
  # Worker -> conductor, after every step or change.
  worker @0 :UInt32;
  incarnation @1 :UInt64;
  runningSequences @2 :UInt32;
  waitingSequences @3 :UInt32;
  contextTokens @4 :UInt64;
  freeTokens @5 :UInt64;
}
