#include "scheduling/placement.hpp"

#include <array>
#include <string>

#include "scheduling/placement_policies.hpp"

namespace yolk::scheduling {

namespace {

using maker = std::unique_ptr<placement_policy> (*)(const placement_options&);

constexpr std::array<std::string_view, 10> names{
    "random",   "round_robin", "least_loaded", "longest_prefix", "cache_aware",
    "mooncake", "preble",      "dynamo",       "llm_d",          "yolk"};
constexpr std::array<maker, names.size()> makers{
    make_random_placement,
    [](const placement_options&) { return make_round_robin_placement(); },
    [](const placement_options&) { return make_least_loaded_placement(); },
    [](const placement_options&) { return make_longest_prefix_placement(); },
    [](const placement_options&) { return make_cache_aware_placement(); },
    make_mooncake_placement,
    make_preble_placement,
    make_dynamo_placement,
    [](const placement_options&) { return make_llm_d_placement(); },
    make_yolk_placement};

}  // namespace

std::span<const std::string_view> placement_policy_names() {
  return names;
}

result<std::unique_ptr<placement_policy>> make_placement_policy(std::string_view name,
                                                                const placement_options& options) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return makers[i](options);
  return core::failure<errc>{errc::unknown_name, "no placement policy is called " + std::string(name)};
}

}  // namespace yolk::scheduling
