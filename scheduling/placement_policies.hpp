#pragma once

#include "scheduling/placement.hpp"

// The policies by constructor, for make_placement_policy.
namespace yolk::scheduling {

/// Uniform, drawn from (seed, request number). Reuses what its node has, as all of these do.
std::unique_ptr<placement_policy> make_random_placement(const placement_options& options);
/// One after another, in order of the ids.
std::unique_ptr<placement_policy> make_round_robin_placement();
/// The shortest predicted queue.
std::unique_ptr<placement_policy> make_least_loaded_placement();
/// The longest prefix on the worker's node, whatever its queue; ties to the shortest queue.
std::unique_ptr<placement_policy> make_longest_prefix_placement();
/// Least predicted TTFT with what the worker's own node has; nothing moves between nodes.
std::unique_ptr<placement_policy> make_cache_aware_placement();
/// Dynamo's router: cost = uncached blocks (a block in DRAM counts 0.75 as one on the device) + queued
/// blocks; least cost, or drawn by softmax of the costs over their range.
std::unique_ptr<placement_policy> make_dynamo_placement(const placement_options& options);
/// llm-d's sample profile: 2 x matched share + 1 x (longest queue - queue) / (longest - shortest), greatest
/// score; prompts without a hit go to the worker that had none for longest.
std::unique_ptr<placement_policy> make_llm_d_placement();
/// Mooncake's Algorithm 1 (FAST'25).
std::unique_ptr<placement_policy> make_mooncake_placement(const placement_options& options);
/// Preble's E2 (ICLR'25).
std::unique_ptr<placement_policy> make_preble_placement(const placement_options& options);
/// Yolk's own.
std::unique_ptr<placement_policy> make_yolk_placement(const placement_options& options);

}  // namespace yolk::scheduling
