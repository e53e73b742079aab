#pragma once

#include <memory>
#include <span>

#include "actors/metrics.hpp"
#include "core/background_thread.hpp"
#include "core/clock.hpp"
#include "core/ids.hpp"
#include "core/sampling_params.hpp"
#include "kvcache/prefix_cache.hpp"
#include "kvcache/segment_layout.hpp"
#include "messages/interfaces.hpp"
#include "model/step_executor.hpp"
#include "transport/transfer_engine.hpp"

namespace yolk::actors {

/// What the actors' numbers of the model are; the weights are the executor's business.
struct served_model {
  std::vector<core::token_id> end_tokens;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t context_length = 0;
  float rope_base = 0.0f;
};

/// What a worker is given at its start. The engine's region is the pool of KV blocks: block b lies at
/// b · layout.block_bytes(). One environment serves one incarnation of one worker.
struct worker_environment {
  core::worker_id id;
  core::incarnation incarnation;
  served_model model;
  kvcache::segment_layout layout;
  std::uint32_t block_count = 0;
  std::unique_ptr<transport::transfer_engine> transfers;
  std::unique_ptr<model::step_executor> executor;
  std::shared_ptr<metrics> recorder;
  std::shared_ptr<const core::clock> clock;
  core::job_place hashing = core::job_place::own_thread;  ///< where checksums are computed
};

/// What both kinds of worker report alike: who they are, what their pool holds, what they moved.
void write_worker(messages::schema::ActorStatus::Builder status, const worker_environment& worker,
                  const kvcache::prefix_cache& pool);

/// Whether a step is open, and how long ago the last one ended: what tells a hung worker from an idle one.
void write_progress(messages::schema::ActorStatus::Builder status, bool step_open,
                    core::duration since_last_step);

/// To clients, of a sequence that cannot go on.
inline constexpr const char* no_finite_logits =
    "The model gave no finite logits: its weights are damaged, or its numbers overflow.";

/// Whether a sequence ends with its newest token. generated_count includes that token; total_count is prompt
/// plus generated.
messages::schema::TokenBatch::Finish finish_after(core::token_id newest, const core::sampling_params& params,
                                                  const served_model& model, std::size_t generated_count,
                                                  std::size_t total_count);

/// One token of one choice, for the session.
messages::token_batch make_token_batch(messages::schema::RequestHeader::Reader header,
                                       core::incarnation sender, std::uint32_t choice, std::uint32_t index,
                                       const core::sampled_token& token,
                                       messages::schema::TokenBatch::Finish finish,
                                       std::uint32_t cached_tokens);

}  // namespace yolk::actors
