@0xb1a0c3f0d5e7a102;
# A request's way: session -> admission_controller -> conductor -> prefill_worker -> decode_worker -> session.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("yolk::messages::schema");
using Common = import "common.capnp";

struct Sampling {
  # core::sampling_params
  temperature @0 :Float32;
  topP @1 :Float32;
  topK @2 :UInt32;
  minP @3 :Float32;
  repetitionPenalty @4 :Float32;
  presencePenalty @5 :Float32;
  frequencyPenalty @6 :Float32;
  logitBias @7 :List(LogitBias);
  seeds @8 :List(UInt64);        # one per choice of this leg
  maxTokens @9 :UInt32;          # tokens to generate in all, those of earlier attempts included
  minTokens @10 :UInt32;
  stopTokenIds @11 :Data;        # UInt32 little-endian
  ignoreEos @12 :Bool;
  logprobs @13 :Bool;
  topLogprobs @14 :UInt32;

  struct LogitBias {
    token @0 :UInt32;
    bias @1 :Float32;
  }
}

struct GenerateRequest {
  # Built by the session; passed on unchanged by everyone.
  header @0 :Common.RequestHeader;
  tokens @1 :Data;               # UInt32 little-endian: the prompt, then what earlier attempts generated
  promptLength @2 :UInt32;       # tokens[promptLength ..] were generated
  sampling @3 :Sampling;
  root @4 :Common.BlockKey;      # root of the block keys: tenant, salt, model, format
  firstChoice @5 :UInt32;        # index of this leg's first choice within the client's request
  choiceCount @6 :UInt32;        # > 1 only on a first attempt
}

struct TokenBatch {
  # Worker -> session: tokens of one choice, in order.
  header @0 :Common.RequestHeader;
  choice @1 :UInt32;             # absolute choice index
  firstIndex @2 :UInt32;         # how many tokens of this choice came before these (all attempts)
  tokens @3 :List(Token);
  finish @4 :Finish;
  cachedTokens @5 :UInt32;       # with the leg's first token: prompt tokens that were not computed; else 0

  struct Token {
    id @0 :UInt32;
    logprob @1 :Float32;
    top @2 :List(Scored);
  }
  struct Scored {
    id @0 :UInt32;
    logprob @1 :Float32;
  }
  enum Finish {
    none @0;
    stop @1;                     # an end token, or one of stopTokenIds
    length @2;                   # maxTokens, or the context's end
  }
}

struct LegFailed {
  # Conductor, worker or admission controller -> session. The session resumes it elsewhere, or gives up.
  header @0 :Common.RequestHeader;
  reason @1 :Reason;
  message @2 :Text;
  retryAfterSeconds @3 :UInt32;  # with refused

  enum Reason {
    refused @0;                  # admission: overload; nothing was computed
    workerLost @1;               # a worker died or was restarted
    preempted @2;                # decode ran out of blocks: compute it again later
    transferFailed @3;           # KV did not arrive, or failed verification
    unavailable @4;              # no worker came back in time
    internal @5;
  }
}

struct LegEnded {
  # Session -> admission controller and conductor: nothing more is wanted (finished, cancelled or given up).
  header @0 :Common.RequestHeader;
  cancel @1 :Bool;               # workers may still hold something: tell them
}

struct CancelLeg {
  # Conductor -> workers. Idempotent; unknown legs are ignored.
  header @0 :Common.RequestHeader;
}
