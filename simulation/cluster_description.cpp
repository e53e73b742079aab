#include "simulation/cluster_description.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "scheduling/placement.hpp"
#include "scheduling/slo_admission.hpp"
#include "simulation/field_reader.hpp"

namespace yolk::simulation {

namespace {

using json = nlohmann::json;

constexpr double bytes_per_gigabyte = 1e9;
constexpr std::size_t max_nodes = 4096;

struct device_description {
  scheduling::latency_coefficients latency;
  std::uint64_t kv_tokens = 0;
};

/// Reads the parts of one file; the first problem is kept.
class cluster_parser {
 public:
  std::optional<std::string> problem;

  cluster_description parse(const json& root) {
    cluster_description read;
    field_reader fields(root, "", problem);
    read.name = fields.text("name", "cluster");
    read_model(fields.object("model"), read);
    for (const auto& [name, device] : fields.object("devices").items())
      devices_[name] = read_device(device, "devices." + name, read.kv_bytes_per_token);
    for (const auto& [name, link] : fields.object("links").items())
      links_[name] = read_link(link, "links." + name);
    const auto& nodes = fields.array("nodes");
    for (std::size_t i = 0; i < nodes.size(); ++i)
      read_nodes(nodes[i], "nodes[" + std::to_string(i) + "]", read.nodes);
    read_policy(fields.object("policy"), read.policy);
    read_slo(fields.object("slo"), read.slo);
    read.seed = fields.whole<std::uint64_t>("seed", {0, 9e15}, 1);
    fields.finish();
    check(read);
    return read;
  }

 private:
  void read_model(const json& object, cluster_description& read) {
    field_reader fields(object, "model", problem);
    read.kv_bytes_per_token = fields.number("kv_bytes_per_token", {1, 1e9}, read.kv_bytes_per_token);
    read.context_tokens =
        fields.whole<std::uint32_t>("context_tokens", {64, double{1 << 24}}, read.context_tokens);
    read.block_tokens = fields.whole<std::uint32_t>("block_tokens", {8, 4096}, read.block_tokens);
    fields.finish();
  }

  device_description read_device(const json& object, const std::string& path, double kv_bytes_per_token) {
    field_reader fields(object, path, problem);
    device_description read;
    const auto preset = fields.text("preset", "");
    if (preset == "a800_llama3_70b")
      read.latency = scheduling::a800_llama3_70b();
    else if (!preset.empty())
      fields.complain("preset", "'" + preset + "' is not a800_llama3_70b");
    if (fields.has("prefill") || preset.empty()) {
      field_reader costs(fields.object("prefill"), path + ".prefill", problem);
      read.latency.prefill = {.base_seconds = costs.number("base_seconds", {0, 100}),
                              .per_token = costs.number("per_token", {0, 100}),
                              .per_token_squared = costs.number("per_token_squared", {0, 100}, 0.0),
                              .per_cached_token = costs.number("per_cached_token", {0, 100}, 0.0)};
      costs.finish();
    }
    if (fields.has("decode") || preset.empty()) {
      field_reader costs(fields.object("decode"), path + ".decode", problem);
      read.latency.decode = {.base_seconds = costs.number("base_seconds", {0, 100}),
                             .per_sequence = costs.number("per_sequence", {0, 100}, 0.0),
                             .per_context_token = costs.number("per_context_token", {0, 100}, 0.0)};
      costs.finish();
    }
    read.latency.kv_bytes_per_token = kv_bytes_per_token;
    read.kv_tokens = fields.whole<std::uint64_t>("kv_tokens", {64, 1e12});
    fields.finish();
    return read;
  }

  node_link read_link(const json& object, const std::string& path) {
    field_reader fields(object, path, problem);
    const auto rate = [&](const char* key) { return fields.number(key, {0, 1e6}) * bytes_per_gigabyte; };
    node_link read;
    read.out_bytes_per_second = rate("out_gigabytes_per_second");
    read.in_bytes_per_second = rate("in_gigabytes_per_second");
    read.local_bytes_per_second =
        fields.number("local_gigabytes_per_second", {0, 1e6}, 0.0) * bytes_per_gigabyte;
    read.setup = std::chrono::nanoseconds(
        static_cast<std::int64_t>(fields.number("setup_microseconds", {0, 1e9}, 0.0) * 1e3));
    fields.finish();
    return read;
  }

  void read_nodes(const json& object, const std::string& path, std::vector<node_description>& nodes) {
    field_reader fields(object, path, problem);
    node_description read;
    const auto role = fields.text("role");
    if (role != "prefill" && role != "decode")
      fields.complain("role", "'" + role + "' is neither prefill nor decode");
    read.role = role == "decode" ? node_role::decode : node_role::prefill;
    const auto device = fields.text("device");
    if (const auto found = devices_.find(device); found != devices_.end()) {
      read.latency = found->second.latency;
      read.kv_tokens = found->second.kv_tokens;
    } else {
      fields.complain("device", "'" + device + "' is none of the devices");
    }
    const auto link = fields.text("link");
    if (const auto found = links_.find(link); found != links_.end())
      read.link = found->second;
    else
      fields.complain("link", "'" + link + "' is none of the links");
    read.dram_tokens = fields.whole<std::uint64_t>("dram_tokens", {0, 1e12}, 0);
    const auto count = fields.whole<std::size_t>("count", {1, double{max_nodes}}, 1);
    fields.finish();
    nodes.insert(nodes.end(), count, read);
  }

  void read_policy(const json& object, policy_description& read) {
    field_reader fields(object, "policy", problem);
    read.placement = fields.text("placement", "");
    const auto placements = scheduling::placement_policy_names();
    if (!read.placement.empty() &&
        std::find(placements.begin(), placements.end(), read.placement) == placements.end())
      fields.complain("placement", "'" + read.placement + "' is no policy");
    read.admission = fields.text("admission", "");
    if (!read.admission.empty() && !scheduling::find_admission_rule(read.admission))
      fields.complain("admission", "'" + read.admission + "' is no rule");
    const auto count = [&](const char* key, std::uint32_t& target, field_reader::range within) {
      target = fields.whole<std::uint32_t>(key, within, target);
    };
    count("chunk_tokens", read.chunk_tokens, {16, 1e6});
    count("max_active", read.max_active, {1, 4096});
    count("max_batch", read.max_batch, {1, 65536});
    count("max_running", read.max_running, {1, 1e9});
    count("max_waiting", read.max_waiting, {0, 1e9});
    fields.finish();
  }

  void read_slo(const json& object, slo_description& read) {
    field_reader fields(object, "slo", problem);
    read.ttft_seconds = fields.number("ttft_seconds", {1e-6, 1e6}, read.ttft_seconds);
    read.tbt_seconds = fields.number("tbt_seconds", {1e-6, 1e6}, read.tbt_seconds);
    fields.finish();
  }

  void check(const cluster_description& read) {
    if (problem) return;
    std::size_t prefill = 0;
    for (const auto& node : read.nodes) {
      prefill += node.role == node_role::prefill ? 1 : 0;
      if (node.kv_tokens < 2 * std::uint64_t{read.block_tokens})
        problem = "devices: kv_tokens: a pool must hold at least two blocks";
      if (node.dram_tokens > 0 && node.dram_tokens < read.block_tokens)
        problem = "nodes: dram_tokens: a shard must hold at least one block";
    }
    if (read.nodes.size() > max_nodes)
      problem = "nodes: " + std::to_string(read.nodes.size()) + " are more than " + std::to_string(max_nodes);
    if (prefill == 0 || prefill == read.nodes.size())
      problem = "nodes: at least one of each role (prefill, decode) is needed";
  }

  std::map<std::string, device_description> devices_;
  std::map<std::string, node_link> links_;
};

}  // namespace

result<cluster_description> parse_cluster(std::string_view text, const std::string& where) {
  json root;
  try {
    root = json::parse(text.begin(), text.end());
  } catch (const json::parse_error& problem) {
    return core::failure<errc>{errc::malformed, where + ": " + problem.what()};
  }
  cluster_parser parser;
  auto read = parser.parse(root);
  if (parser.problem) return core::failure<errc>{errc::malformed, where + ": " + *parser.problem};
  return read;
}

result<cluster_description> read_cluster(const std::string& name_or_path) {
  if (const auto text = preset_text(name_or_path); !text.empty()) return parse_cluster(text, name_or_path);
  std::ifstream file(name_or_path);
  if (!file) {
    std::string names;
    for (const auto& name : preset_names()) names += (names.empty() ? "" : ", ") + name;
    return core::failure<errc>{errc::unreadable,
                               name_or_path + ": no file that can be read, and no preset (" + names + ")"};
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse_cluster(text.str(), name_or_path);
}

}  // namespace yolk::simulation
