#include "actors/worker_environment.hpp"

#include <algorithm>
#include <chrono>

#include "actors/conversions.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

void write_worker(schema::ActorStatus::Builder status, const worker_environment& worker,
                  const kvcache::prefix_cache& pool) {
  const auto transfers = worker.transfers->counters();
  status.setId(worker.id.value);
  status.setIncarnation(worker.incarnation.value);
  status.setBlocksTotal(pool.block_count());
  status.setBlocksUsed(pool.block_count() - pool.available_count());
  status.setBlocksCached(pool.cached_count());
  status.setBlockBytes(worker.layout.block_bytes());
  status.setEvictedBlocks(pool.evicted_total());
  status.setTransfers(transfers.transfers);
  status.setTransferBytes(transfers.put_bytes + transfers.get_bytes);
  status.setTransferFailures(transfers.failures);
}

void write_progress(schema::ActorStatus::Builder status, bool step_open, core::duration since_last_step) {
  status.setHasWork(step_open);
  if (step_open)
    status.setIdleMilliseconds(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(since_last_step).count()));
}

schema::TokenBatch::Finish finish_after(core::token_id newest, const core::sampling_params& params,
                                        const served_model& model, std::size_t generated_count,
                                        std::size_t total_count) {
  const auto is = [newest](const std::vector<core::token_id>& tokens) {
    return std::find(tokens.begin(), tokens.end(), newest) != tokens.end();
  };
  const bool long_enough = generated_count > params.min_tokens;
  if (long_enough && (is(params.stop_token_ids) || (!params.ignore_eos && is(model.end_tokens))))
    return schema::TokenBatch::Finish::STOP;
  if (generated_count >= params.max_tokens || total_count >= model.context_length)
    return schema::TokenBatch::Finish::LENGTH;
  return schema::TokenBatch::Finish::NONE;
}

messages::token_batch make_token_batch(schema::RequestHeader::Reader header, core::incarnation sender,
                                       std::uint32_t choice, std::uint32_t index,
                                       const core::sampled_token& token, schema::TokenBatch::Finish finish,
                                       std::uint32_t cached_tokens) {
  return messages::token_batch::build([&](schema::TokenBatch::Builder batch) {
    write(batch.initHeader(), header_of(header), sender);
    batch.setChoice(choice);
    batch.setFirstIndex(index);
    write(batch.initTokens(1)[0], token);
    batch.setFinish(finish);
    batch.setCachedTokens(cached_tokens);
  });
}

}  // namespace yolk::actors
