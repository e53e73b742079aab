#include "simulation/cluster.hpp"

#include <caf/all.hpp>
#include <optional>

#include "actors/admission_controller/admission_controller.hpp"
#include "actors/cache_shard/cache_shard.hpp"
#include "actors/conductor/conductor.hpp"
#include "actors/conversions.hpp"
#include "actors/decode_worker/decode_worker.hpp"
#include "actors/prefill_worker/prefill_worker.hpp"

namespace yolk::simulation {

namespace {

namespace schema = messages::schema;

/// A block's bookkeeping needs no bytes, but transfers are counted in them: two a token, one for K, one for
/// V.
constexpr kvcache::segment_layout tiny_layout(std::uint32_t block_tokens) {
  return {
      .layer_count = 1, .kv_head_count = 1, .head_dim = 1, .block_tokens = block_tokens, .element_bytes = 1};
}

std::vector<node_link> links_of(const cluster_description& description) {
  std::vector<node_link> links;
  for (const auto& node : description.nodes) links.push_back(node.link);
  return links;
}

/// What the conductor believes at first; it learns by what it observes.
scheduling::latency_coefficients latency_of(const cluster_description& description) {
  const auto& node = description.nodes.front();
  auto latency = node.latency;
  const double setup = std::chrono::duration<double>(node.link.setup).count();
  // A link that takes no time, as the models write it.
  constexpr double instant = 1e18;
  const auto rate = [](double bytes_per_second) { return bytes_per_second > 0 ? bytes_per_second : instant; };
  latency.links = {{{setup, rate(node.link.local_bytes_per_second)},
                    {setup, rate(node.link.in_bytes_per_second)},
                    {setup, rate(node.link.in_bytes_per_second)}}};
  return latency;
}

actors::conductor_options conductor_options_of(const cluster_description& description) {
  actors::conductor_options options{.block_tokens = description.block_tokens,
                                    .latency = latency_of(description)};
  if (!description.policy.placement.empty()) options.placement = description.policy.placement;
  if (!description.policy.admission.empty()) options.admission = description.policy.admission;
  options.slo = {.ttft_seconds = description.slo.ttft_seconds, .tbt_seconds = description.slo.tbt_seconds};
  options.placement_options.seed = description.seed;
  return options;
}

messages::actor_joined joined(schema::ActorKind kind, core::worker_id id, core::incarnation incarnation,
                              std::uint64_t capacity_tokens) {
  return messages::actor_joined::build([&](schema::ActorJoined::Builder builder) {
    builder.setKind(kind);
    builder.setId(id.value);
    builder.setIncarnation(incarnation.value);
    builder.setCapacityTokens(capacity_tokens);
  });
}

}  // namespace

cluster::cluster(virtual_system& system, const cluster_description& description, measurements& results)
    : system_(system),
      description_(description),
      results_(results),
      network_(system.events(), *system.clock(), links_of(description)),
      fabric_(system.events(), *system.clock(), network_),
      layout_(tiny_layout(description.block_tokens)) {
  const auto recorder = std::make_shared<actors::metrics>(description.name);
  const std::shared_ptr<const core::clock> clock = system.clock();
  conductor_ = actors::spawn_conductor(system.actors(), conductor_options_of(description),
                                       {next_incarnation(), recorder, clock});
  admission_ = actors::spawn_admission_controller(
      system.actors(),
      {.max_running = description.policy.max_running, .max_waiting = description.policy.max_waiting},
      {next_incarnation(), recorder, clock});
  caf::anon_send(admission_, messages::peers_changed::build([](auto) {}), conductor_);
  for (std::uint32_t index = 0; index < description.nodes.size(); ++index)
    start_node(index, description.nodes[index]);
  system.run_messages();
}

cluster::~cluster() {
  const auto stop = [](const auto& who) {
    if (who) caf::anon_send_exit(who, caf::exit_reason::user_shutdown);
  };
  stop(admission_);
  stop(conductor_);
  for (const auto& node : nodes_) {
    stop(node.prefill);
    stop(node.decode);
  }
  for (const auto& node : nodes_) stop(node.shard);
  system_.run_messages();
}

std::unique_ptr<transport::transfer_engine> cluster::engine(std::uint32_t index,
                                                            core::incarnation incarnation,
                                                            std::uint64_t blocks,
                                                            transport::engine_counters* totals) {
  return make_simulated_engine(fabric_, {.node = index,
                                         .owner = incarnation,
                                         .region_bytes = blocks * layout_.block_bytes(),
                                         .bytes_per_byte = description_.kv_bytes_per_token /
                                                           static_cast<double>(layout_.token_bytes()),
                                         .totals = totals});
}

std::shared_ptr<actors::worker_environment> cluster::environment(std::uint32_t index,
                                                                 const node_description& node) {
  auto made = std::make_shared<actors::worker_environment>();
  made->id = {index * core::workers_per_node};
  made->incarnation = next_incarnation();
  made->model = {
      .end_tokens = {}, .vocabulary_size = 1, .context_length = description_.context_tokens, .rope_base = 1};
  made->layout = layout_;
  made->block_count = static_cast<std::uint32_t>(node.kv_tokens / layout_.block_tokens);
  made->transfers =
      engine(index, made->incarnation, made->block_count,
             node.role == node_role::prefill ? &results_.prefill_transfers : &results_.decode_transfers);
  made->executor = make_simulated_executor(
      {.events = system_.events(),
       .clock = *system_.clock(),
       .latency = scheduling::latency_model(node.latency),
       .on_step = [this, role = node.role](const device_step& step) { results_.stepped(role, step); }});
  made->recorder = nodes_[index].recorder;
  made->clock = system_.clock();
  made->hashing = core::job_place::at_once;
  return made;
}

void cluster::start_node(std::uint32_t index, const node_description& node) {
  nodes_.push_back({.recorder = std::make_shared<actors::metrics>(description_.name)});
  if (node.dram_tokens > 0) start_shard(index, node);
  start_worker(index, node);
}

void cluster::start_shard(std::uint32_t index, const node_description& node) {
  auto made = std::make_shared<actors::shard_environment>();
  const auto blocks = node.dram_tokens / layout_.block_tokens;
  made->id = {index * core::workers_per_node + 1};
  made->incarnation = next_incarnation();
  made->layout = layout_;
  made->byte_limit = blocks * layout_.block_bytes();
  made->transfers = engine(index, made->incarnation, blocks, &results_.shard_transfers);
  made->recorder = nodes_[index].recorder;
  made->clock = system_.clock();
  made->hashing = core::job_place::at_once;
  const auto news = joined(schema::ActorKind::CACHE_SHARD, made->id, made->incarnation, node.dram_tokens);
  auto& shard = nodes_[index].shard;
  shard = actors::spawn_cache_shard(system_.actors(), {}, std::move(made));
  caf::anon_send(shard, messages::peers_changed::build([](auto) {}), messages::conductor_reports(conductor_));
  caf::anon_send(conductor_, news, shard);
}

void cluster::start_worker(std::uint32_t index, const node_description& node) {
  const auto& policy = description_.policy;
  auto made = environment(index, node);
  const auto changed = messages::peers_changed::build([](auto) {});
  const messages::conductor_reports reports(conductor_);
  const auto kind =
      node.role == node_role::prefill ? schema::ActorKind::PREFILL_WORKER : schema::ActorKind::DECODE_WORKER;
  const auto news = joined(kind, made->id, made->incarnation, node.kv_tokens);
  auto& started = nodes_[index];
  if (node.role == node_role::prefill) {
    started.prefill = actors::spawn_prefill_worker(system_.actors(),
                                                   {.chunk_tokens = policy.chunk_tokens,
                                                    .max_active = policy.max_active,
                                                    .max_queued = policy.max_running},
                                                   std::move(made));
    caf::anon_send(started.prefill, changed, reports);
    caf::anon_send(conductor_, news, started.prefill);
  } else {
    started.decode =
        actors::spawn_decode_worker(system_.actors(), {.max_batch = policy.max_batch}, std::move(made));
    caf::anon_send(started.decode, changed, reports);
    caf::anon_send(conductor_, news, started.decode);
  }
}

std::string cluster::audit() {
  std::string held;
  const auto ask = messages::status_request::build([](auto) {});
  const auto look = [&](const auto& who) {
    if (!who) return;
    system_.actors().spawn([&, asked = caf::actor_cast<caf::actor>(who)](caf::event_based_actor* self) {
      self->request(asked, caf::infinite, ask).then([&](const messages::actor_status& answer) {
        const auto status = answer.read();
        const auto name =
            std::string(actors::kind_name(status->getKind())) + " " + std::to_string(status->getId());
        if (status->getRunning() + status->getWaiting() > 0) held += name + " still runs something; ";
        if (status->getAudit().size() > 0) held += name + ": " + status->getAudit().cStr() + "; ";
      });
    });
    system_.run_messages();
  };
  look(admission_);
  look(conductor_);
  for (const auto& node : nodes_) {
    look(node.prefill);
    look(node.decode);
    look(node.shard);
  }
  return held;
}

}  // namespace yolk::simulation
