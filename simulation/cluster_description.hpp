#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scheduling/latency_model.hpp"
#include "simulation/errc.hpp"
#include "simulation/network.hpp"

namespace yolk::simulation {

enum class node_role : std::uint8_t { prefill, decode };

/// A node: one worker with its device, and the node's DRAM as a cache shard.
struct node_description {
  node_role role = node_role::prefill;
  scheduling::latency_coefficients latency;
  std::uint64_t kv_tokens = 0;    ///< that the device's blocks hold
  std::uint64_t dram_tokens = 0;  ///< that the cache shard holds; 0 = no shard
  node_link link;
};

/// How the actors are set up; each as the option of `yolk serve` that has its name.
struct policy_description {
  std::string placement;  ///< empty = the conductor's default
  std::string admission;  ///< empty = the admission controller's default
  std::uint32_t chunk_tokens = 2048;
  std::uint32_t max_active = 2;  ///< prompts that a prefill worker has begun at once
  std::uint32_t max_batch = 256;
  std::uint32_t max_running = 1'000'000;
  std::uint32_t max_waiting = 1'000'000;
};

struct slo_description {
  double ttft_seconds = 30.0;
  double tbt_seconds = 0.1;
};

/// What a simulation consists of.
struct cluster_description {
  std::string name;
  std::uint32_t block_tokens = 512;
  double kv_bytes_per_token = 327'680;
  std::uint32_t context_tokens = 262'144;
  std::vector<node_description> nodes;
  policy_description policy;
  slo_description slo;
  std::uint64_t seed = 1;
};

/// Reads the JSON `text` of a cluster file (docs/simulation.md). A failure names `where`, the field and what
/// it may be.
result<cluster_description> parse_cluster(std::string_view text, const std::string& where);
/// A preset's name, or else a file's path.
result<cluster_description> read_cluster(const std::string& name_or_path);
/// The presets' names, and the text of one: a cluster file to begin with. Empty for an unknown name.
std::vector<std::string> preset_names();
std::string_view preset_text(std::string_view name);

}  // namespace yolk::simulation
