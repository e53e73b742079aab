#include "actors/supervisor/worker_factory.hpp"

#include <algorithm>

#include "model/step_executor.hpp"

namespace yolk::actors {

namespace {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// KV travels neither encrypted nor authenticated: no further than the node's peers are.
std::string network_devices_of(const cluster_options& cluster) {
  const bool stays_here =
      !cluster.listen ||
      (is_loopback(cluster.listen->host) && (cluster.advertise.empty() || is_loopback(cluster.advertise)) &&
       std::all_of(cluster.join.begin(), cluster.join.end(),
                   [](const node_address& head) { return is_loopback(head.host); }));
  return stays_here ? "lo" : "";
}

}  // namespace

worker_factory::worker_factory(node_options options, std::shared_ptr<const model::loaded_model> model,
                               std::shared_ptr<gpu::platform> platform, std::shared_ptr<metrics> recorder,
                               std::shared_ptr<const core::clock> clock)
    : options_(std::move(options)),
      model_(std::move(model)),
      platform_(std::move(platform)),
      recorder_(std::move(recorder)),
      clock_(std::move(clock)),
      layout_(model_->config.kv_layout(options_.block_tokens)) {}

std::uint32_t worker_factory::max_context_tokens() const {
  const auto smallest = std::min(options_.prefill_kv_bytes, options_.decode_kv_bytes) / layout_.block_bytes();
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(model_->config.context_length, smallest * layout_.block_tokens));
}

node_result<std::shared_ptr<worker_environment>> worker_factory::make_prefill(
    core::worker_id id, core::incarnation incarnation) const {
  return make({id, incarnation, options_.prefill_kv_bytes, options_.prefill.chunk_tokens,
               "prefill-" + std::to_string(id.value)});
}

node_result<std::shared_ptr<worker_environment>> worker_factory::make_decode(
    core::worker_id id, core::incarnation incarnation) const {
  return make({id, incarnation, options_.decode_kv_bytes, options_.decode.max_batch,
               "decode-" + std::to_string(id.value)});
}

transport::result<std::unique_ptr<transport::transfer_engine>> worker_factory::start_engine(
    std::uint64_t region_bytes, core::incarnation owner) const {
  return transport::transfer_engine::start({.region_bytes = region_bytes,
                                            .owner = owner,
                                            .network_devices = network_devices_of(options_.cluster)});
}

node_result<std::shared_ptr<worker_environment>> worker_factory::make(const worker_shape& shape) const {
  auto environment = std::make_shared<worker_environment>();
  environment->id = shape.id;
  environment->incarnation = shape.incarnation;
  environment->model = {.end_tokens = model_->config.end_tokens,
                        .vocabulary_size = model_->config.vocabulary_size,
                        .context_length = model_->config.context_length,
                        .rope_base = model_->config.rope_base};
  environment->layout = layout_;
  environment->block_count = static_cast<std::uint32_t>(shape.pool_bytes / layout_.block_bytes());
  environment->recorder = recorder_;
  environment->clock = clock_;
  auto engine = start_engine(environment->block_count * layout_.block_bytes(), shape.incarnation);
  if (!engine)
    return core::failure<node_errc>{node_errc::no_transport,
                                    shape.thread_name + ": " + engine.error().message};
  environment->transfers = std::move(engine).value();
  auto device = platform_->create_device();
  if (!device)
    return core::failure<node_errc>{node_errc::no_device, shape.thread_name + ": " + device.error().message};
  environment->executor =
      model::make_transformer_executor({.model = model_,
                                        .device = std::move(device).value(),
                                        .layout = layout_,
                                        .kv_pool = environment->transfers->region().data(),
                                        .max_rows = shape.max_rows,
                                        .thread_name = shape.thread_name});
  return environment;
}

node_result<std::shared_ptr<shard_environment>> worker_factory::make_shard(
    core::worker_id id, core::incarnation incarnation) const {
  auto environment = std::make_shared<shard_environment>();
  environment->id = id;
  environment->incarnation = incarnation;
  environment->layout = layout_;
  environment->byte_limit = std::max<std::uint64_t>(options_.cache_dram_bytes, layout_.block_bytes());
  environment->recorder = recorder_;
  environment->clock = clock_;
  auto engine = start_engine(environment->byte_limit, incarnation);
  if (!engine)
    return core::failure<node_errc>{node_errc::no_transport, "cache shard: " + engine.error().message};
  environment->transfers = std::move(engine).value();
  if (options_.cache_ssd_folder.empty()) return environment;
  const auto owner = kvcache::make_root({.tenant = {},
                                         .salt = {},
                                         .model = model_->fingerprint + "/" + numerics(),
                                         .kv_dtype = "bf16",
                                         .adapter = {},
                                         .block_tokens = options_.block_tokens});
  auto log = kvcache::ssd_log::open({.folder = options_.cache_ssd_folder,
                                     .byte_limit = options_.cache_ssd_bytes,
                                     .layout = layout_,
                                     .owner = owner,
                                     .incarnation = incarnation},
                                    kvcache::make_io_backend());
  if (!log)
    return core::failure<node_errc>{node_errc::no_storage, "cache shard, SSD tier: " + log.error().message};
  environment->ssd = std::move(log).value();
  return environment;
}

}  // namespace yolk::actors
