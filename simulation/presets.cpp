#include <array>

#include "simulation/cluster_description.hpp"

namespace yolk::simulation {

namespace {

struct preset {
  const char* name;
  const char* text;
};

/// 16 nodes of 8 x A800-80GB (4 x 200 Gb/s RDMA) with LLaMA3-70B in BF16, half of them for each role: the
/// set-up of Mooncake's evaluation (FAST'25, section 5), with a terabyte of DRAM a node. 87 GB/s is what
/// their transfer engine reaches on this hardware. The time to bring KV from the node's own DRAM is in the
/// device's cost of cached tokens.
constexpr std::array presets = {preset{"8xA800-llama3-70b", R"({
  "name": "8xA800-llama3-70b",
  "model": {"kv_bytes_per_token": 327680, "context_tokens": 262144, "block_tokens": 512},
  "devices": {
    "8xA800": {"preset": "a800_llama3_70b", "kv_tokens": 1400000}
  },
  "links": {
    "4x200G": {"out_gigabytes_per_second": 87, "in_gigabytes_per_second": 87,
               "local_gigabytes_per_second": 0, "setup_microseconds": 20}
  },
  "nodes": [
    {"role": "prefill", "count": 8, "device": "8xA800", "link": "4x200G", "dram_tokens": 3000000},
    {"role": "decode", "count": 8, "device": "8xA800", "link": "4x200G"}
  ],
  "policy": {"chunk_tokens": 2048, "max_active": 2, "max_batch": 256},
  "slo": {"ttft_seconds": 30, "tbt_seconds": 0.1},
  "seed": 1
}
)"}};

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  names.reserve(std::size(presets));
  for (const auto& each : presets) names.emplace_back(each.name);
  return names;
}

std::string_view preset_text(std::string_view name) {
  for (const auto& each : presets)
    if (name == each.name) return each.text;
  return {};
}

}  // namespace yolk::simulation
