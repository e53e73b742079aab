#include "actors/conversions.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

const char* kind_name(schema::ActorKind kind) {
  switch (kind) {
    case schema::ActorKind::SUPERVISOR:
      return "supervisor";
    case schema::ActorKind::HTTP_GATEWAY:
      return "http_gateway";
    case schema::ActorKind::ADMISSION_CONTROLLER:
      return "admission_controller";
    case schema::ActorKind::CONDUCTOR:
      return "conductor";
    case schema::ActorKind::PREFILL_WORKER:
      return "prefill_worker";
    case schema::ActorKind::DECODE_WORKER:
      return "decode_worker";
    case schema::ActorKind::CACHE_SHARD:
      return "cache_shard";
  }
  return "unknown";
}

leg_header header_of(schema::RequestHeader::Reader reader) {
  return {reader.getLegId(), reader.getRequestId(), reader.getAttempt()};
}

void write(schema::RequestHeader::Builder builder, const leg_header& header, core::incarnation sender) {
  builder.setLegId(header.leg);
  builder.setRequestId(header.request);
  builder.setAttempt(header.attempt);
  builder.setSenderIncarnation(sender.value);
}

kvcache::block_key key_of(schema::BlockKey::Reader reader) {
  return {reader.getHigh(), reader.getLow()};
}

void write(schema::BlockKey::Builder builder, const kvcache::block_key& key) {
  builder.setHigh(key.high);
  builder.setLow(key.low);
}

transport::region_descriptor region_of(schema::Region::Reader reader) {
  return {.owner = {reader.getOwner()},
          .base_address = reader.getBaseAddress(),
          .length_bytes = reader.getLengthBytes(),
          .remote_key = numbers_of<std::byte>(reader.getRemoteKey()),
          .worker_address = numbers_of<std::byte>(reader.getWorkerAddress())};
}

void write(schema::Region::Builder builder, const transport::region_descriptor& region) {
  builder.setOwner(region.owner.value);
  builder.setBaseAddress(region.base_address);
  builder.setLengthBytes(region.length_bytes);
  builder.setRemoteKey(as_data(region.remote_key));
  builder.setWorkerAddress(as_data(region.worker_address));
}

kvcache::block_header block_header_of(schema::BlockHeader::Reader reader) {
  kvcache::block_header header;
  header.key = key_of(reader.getKey());
  header.parent = key_of(reader.getParent());
  header.tokens = numbers_of<core::token_id>(reader.getTokens());
  header.format_version = reader.getFormatVersion();
  header.key_rotation_base = reader.getKeyRotationBase();
  header.first_position = reader.getFirstPosition();
  header.codec = static_cast<kvcache::segment_codec>(reader.getCodec());
  header.layer_checksums = numbers_of<std::uint64_t>(reader.getLayerChecksums());
  header.writer = {reader.getWriter()};
  header.generation = reader.getGeneration();
  return header;
}

void write(schema::BlockHeader::Builder builder, const kvcache::block_header& header) {
  write(builder.initKey(), header.key);
  write(builder.initParent(), header.parent);
  builder.setTokens(as_data(header.tokens));
  builder.setFormatVersion(header.format_version);
  builder.setKeyRotationBase(header.key_rotation_base);
  builder.setFirstPosition(header.first_position);
  builder.setCodec(static_cast<std::uint8_t>(header.codec));
  builder.setLayerChecksums(as_data(header.layer_checksums));
  builder.setWriter(header.writer.value);
  builder.setGeneration(header.generation);
}

core::sampling_params sampling_of(schema::Sampling::Reader reader) {
  core::sampling_params params;
  params.temperature = reader.getTemperature();
  params.top_p = reader.getTopP();
  params.top_k = reader.getTopK();
  params.min_p = reader.getMinP();
  params.repetition_penalty = reader.getRepetitionPenalty();
  params.presence_penalty = reader.getPresencePenalty();
  params.frequency_penalty = reader.getFrequencyPenalty();
  for (auto bias : reader.getLogitBias()) params.logit_bias.emplace_back(bias.getToken(), bias.getBias());
  params.max_tokens = reader.getMaxTokens();
  params.min_tokens = reader.getMinTokens();
  params.stop_token_ids = numbers_of<core::token_id>(reader.getStopTokenIds());
  params.ignore_eos = reader.getIgnoreEos();
  params.logprobs = reader.getLogprobs();
  params.top_logprobs = reader.getTopLogprobs();
  return params;
}

void write(schema::Sampling::Builder builder, const core::sampling_params& params,
           std::span<const std::uint64_t> seeds) {
  builder.setTemperature(params.temperature);
  builder.setTopP(params.top_p);
  builder.setTopK(params.top_k);
  builder.setMinP(params.min_p);
  builder.setRepetitionPenalty(params.repetition_penalty);
  builder.setPresencePenalty(params.presence_penalty);
  builder.setFrequencyPenalty(params.frequency_penalty);
  auto biases = builder.initLogitBias(static_cast<unsigned>(params.logit_bias.size()));
  for (unsigned i = 0; i < biases.size(); ++i) {
    biases[i].setToken(params.logit_bias[i].first);
    biases[i].setBias(params.logit_bias[i].second);
  }
  auto written = builder.initSeeds(static_cast<unsigned>(seeds.size()));
  for (unsigned i = 0; i < written.size(); ++i) written.set(i, seeds[i]);
  builder.setMaxTokens(params.max_tokens);
  builder.setMinTokens(params.min_tokens);
  builder.setStopTokenIds(as_data(params.stop_token_ids));
  builder.setIgnoreEos(params.ignore_eos);
  builder.setLogprobs(params.logprobs);
  builder.setTopLogprobs(params.top_logprobs);
}

core::sampled_token sampled_of(schema::TokenBatch::Token::Reader reader) {
  core::sampled_token token{reader.getId(), reader.getLogprob(), {}};
  for (auto scored : reader.getTop()) token.top.emplace_back(scored.getId(), scored.getLogprob());
  return token;
}

void write(schema::TokenBatch::Token::Builder builder, const core::sampled_token& token) {
  builder.setId(token.token);
  builder.setLogprob(token.logprob);
  if (token.top.empty()) return;
  auto top = builder.initTop(static_cast<unsigned>(token.top.size()));
  for (unsigned i = 0; i < top.size(); ++i) {
    top[i].setId(token.top[i].first);
    top[i].setLogprob(token.top[i].second);
  }
}

messages::leg_failed make_leg_failed(const leg_header& header, core::incarnation sender,
                                     schema::LegFailed::Reason reason, std::string_view text,
                                     std::uint32_t retry_after_seconds) {
  return messages::leg_failed::build([&](schema::LegFailed::Builder failed) {
    write(failed.initHeader(), header, sender);
    failed.setReason(reason);
    failed.setMessage(std::string(text));
    failed.setRetryAfterSeconds(retry_after_seconds);
  });
}

messages::cancel_leg make_cancel_leg(const leg_header& header, core::incarnation sender) {
  return messages::cancel_leg::build(
      [&](schema::CancelLeg::Builder cancel) { write(cancel.initHeader(), header, sender); });
}

messages::leg_ended make_leg_ended(const leg_header& header, core::incarnation sender, bool cancel) {
  return messages::leg_ended::build([&](schema::LegEnded::Builder ended) {
    write(ended.initHeader(), header, sender);
    ended.setCancel(cancel);
  });
}

}  // namespace yolk::actors
