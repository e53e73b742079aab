#include "simulation/cluster_description.hpp"

#include <doctest/doctest.h>

using namespace yolk;
using namespace yolk::simulation;

namespace {

std::string with(const std::string& what, const std::string& instead) {
  std::string text(preset_text("8xA800-llama3-70b"));
  const auto at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), instead);
}

std::string error_of(const std::string& text) {
  const auto read = parse_cluster(text, "file");
  return read ? "" : read.error().message;
}

}  // namespace

TEST_CASE("every preset can be read, and has what its name says") {
  for (const auto& name : preset_names()) {
    CAPTURE(name);
    const auto read = read_cluster(name);
    REQUIRE(read.has_value());
    CHECK(read->name == name);
  }
  const auto read = read_cluster("8xA800-llama3-70b").value();
  CHECK(read.nodes.size() == 16);
  CHECK(read.nodes.front().role == node_role::prefill);
  CHECK(read.nodes.back().role == node_role::decode);
  CHECK(read.nodes.front().link.out_bytes_per_second == 87e9);
  CHECK(read.nodes.front().latency.decode == scheduling::a800_llama3_70b().decode);
}

TEST_CASE("what is wrong is told with file, field and what it may be") {
  CHECK(error_of("{") != "");
  CHECK(error_of(with("\"seed\": 1", "\"seeds\": 1")) == "file: seeds: is no field of this object");
  CHECK(error_of(with("\"seed\": 1", "\"seed\": 1.5")) == "file: seed: 1.5 is not a whole number");
  CHECK(error_of(with("\"role\": \"decode\"", "\"role\": \"cook\"")) ==
        "file: nodes[1].role: 'cook' is neither prefill nor decode");
  CHECK(error_of(with("\"role\": \"decode\"", "\"role\": \"prefill\"")).find("at least one of each role") !=
        std::string::npos);
  CHECK(error_of(with("\"device\": \"8xA800\"", "\"device\": \"9xA800\"")) ==
        "file: nodes[0].device: '9xA800' is none of the devices");
  CHECK(error_of(with("\"count\": 8", "\"count\": 0")) == "file: nodes[0].count: 0 is not within 1 and 4096");
  CHECK(error_of(with("\"kv_tokens\": 1400000", "\"kv_tokens\": 600")).find("two blocks") !=
        std::string::npos);
  CHECK(error_of(with("\"preset\": \"a800_llama3_70b\"", "\"prefill\": {}")) ==
        "file: devices.8xA800.prefill.base_seconds: is missing");
  CHECK(error_of(with("\"chunk_tokens\": 2048", "\"placement\": \"best\"")) ==
        "file: policy.placement: 'best' is no policy");
  CHECK(error_of(with("\"chunk_tokens\": 2048", "\"admission\": \"best\"")) ==
        "file: policy.admission: 'best' is no rule");
  CHECK(read_cluster("/nowhere.json").error().message.find("no preset") != std::string::npos);
}
