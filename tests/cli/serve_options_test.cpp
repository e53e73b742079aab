#include <doctest/doctest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "cli/api_keys.hpp"
#include "cli/serve.hpp"

using namespace yolk;

namespace {

/// A file of options that is gone with the test.
class options_file {
 public:
  explicit options_file(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("yolk_serve_options_" + std::to_string(::getpid()) + ".toml")) {
    std::ofstream(path_) << text;
  }
  ~options_file() { std::filesystem::remove(path_); }
  options_file(const options_file&) = delete;
  options_file& operator=(const options_file&) = delete;
  [[nodiscard]] std::string name() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

cli::serve_options parse(std::vector<std::string> arguments) {
  CLI::App app;
  cli::serve_options options;
  cli::declare_serve(app, options);
  app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  return options;
}

}  // namespace

TEST_CASE("options come from the file that --config names, and the command line wins over it") {
  const options_file file(
      "# an operator's file\n"
      "host = \"0.0.0.0\"\n"
      "port = 9000\n"
      "prefill-workers = 2\n"
      "decode-kv = \"3GiB\"\n"
      "prefill-share = 0.5\n"
      "api-keys = \"/etc/yolk/keys\"\n");
  const auto options = parse({"--config", file.name(), "--port", "9001"});
  CHECK(options.node.gateway.host == "0.0.0.0");
  CHECK(options.node.gateway.port == 9001);
  CHECK(options.node.prefill_workers == 2);
  CHECK(options.node.decode_workers == 1);
  CHECK(options.node.decode_kv_bytes == std::uint64_t{3} << 30);
  CHECK(options.prefill_share == 0.5);
  CHECK(options.api_keys_file == "/etc/yolk/keys");
}

TEST_CASE("a key that is no option, a value out of range and a missing file are errors") {
  const options_file misspelt("prefil-workers = 2\n");
  CHECK_THROWS_AS(parse({"--config", misspelt.name()}), CLI::ConfigError);
  const options_file absurd("block-tokens = 17\n");
  CHECK_THROWS_AS(parse({"--config", absurd.name()}), CLI::ValidationError);
  CHECK_THROWS_AS(parse({"--config", "/nowhere/yolk.toml"}), CLI::FileError);
}

TEST_CASE("options may stand in a section with the command's name, and in no other") {
  const options_file own("[serve]\nport = 9000\n");
  CHECK(parse({"--config", own.name()}).node.gateway.port == 9000);
  const options_file foreign("[gateway]\nport = 9000\n");
  CHECK_THROWS_WITH_AS(parse({"--config", foreign.name()}),
                       "--config: no section [gateway]; use [serve], or none", CLI::ConfigError);
}

TEST_CASE("an unknown key is named") {
  const options_file misspelt("prot = 9000\n");
  CHECK_THROWS_WITH_AS(parse({"--config", misspelt.name()}), "--config: 'prot' is no option of yolk serve",
                       CLI::ConfigError);
}

TEST_CASE("sizes are written with binary suffixes") {
  CHECK(parse({"--cache-dram", "512MiB"}).node.cache_dram_bytes == std::uint64_t{512} << 20);
  CHECK(parse({"--cache-dram", "4096"}).node.cache_dram_bytes == 4096);
  CHECK(parse({"--cache-dram", "3 gb"}).node.cache_dram_bytes == std::uint64_t{3} << 30);
  CHECK(parse({"--cache-dram", "64TiB"}).node.cache_dram_bytes == std::uint64_t{64} << 40);
  for (const char* wrong : {"much", "12XB", "1.5GiB", "5GiBs", "", "99999999999999999999", "16777216TiB"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse({"--cache-dram", wrong}), CLI::ValidationError);
  }
  CHECK_THROWS_WITH_AS(parse({"--cache-dram", "12XB"}), doctest::Contains("KiB, MiB, GiB or TiB"),
                       CLI::ValidationError);
  CHECK_THROWS_AS(parse({"--cache-dram", "-1"}), CLI::ValidationError);
  CHECK_THROWS_AS(parse({"--cache-dram", "0"}), CLI::ValidationError);
  CHECK_THROWS_AS(parse({"--cache-dram", "65TiB"}), CLI::ValidationError);
}

TEST_CASE("an empty host is refused: it would be all interfaces") {
  CHECK_THROWS_AS(parse({"--host", ""}), CLI::ValidationError);
  const options_file none("host =\n");
  CHECK_THROWS_AS(parse({"--config", none.name()}), CLI::ValidationError);
  const options_file empty("host = \"\"\n");
  CHECK_THROWS_AS(parse({"--config", empty.name()}), CLI::ValidationError);
}

TEST_CASE("a port is refused with the range of ports") {
  CHECK_THROWS_WITH_AS(parse({"--port", "99999"}), doctest::Contains("65535"), CLI::ValidationError);
  CHECK(parse({"--port", "65535"}).node.gateway.port == 65535);
}

TEST_CASE("a placement policy is chosen by its name, and a name that none has is refused") {
  CHECK(parse({}).node.conductor.placement == "yolk");
  CHECK(parse({"--placement", "mooncake"}).node.conductor.placement == "mooncake");
  CHECK_THROWS_AS(parse({"--placement", "best"}), CLI::ValidationError);
}

TEST_CASE("requests are held to targets by the admission rule that is named") {
  CHECK(parse({}).node.conductor.admission == "none");
  const auto conductor =
      parse({"--admission", "hold", "--slo-ttft", "2.5", "--slo-tbt", "0.05"}).node.conductor;
  CHECK(conductor.admission == "hold");
  CHECK(conductor.slo.ttft_seconds == 2.5);
  CHECK(conductor.slo.tbt_seconds == 0.05);
  CHECK_THROWS_AS(parse({"--admission", "never"}), CLI::ValidationError);
  CHECK_THROWS_AS(parse({"--slo-tbt", "0"}), CLI::ValidationError);
}

TEST_CASE("texts that go into headers and logs are refused where they would break them") {
  CHECK(parse({"--served-model-name", "my model"}).served_name == "my model");
  CHECK(parse({"--cors-origin", "https://a.example:8443"}).node.gateway.cors_origin ==
        "https://a.example:8443");
  CHECK_THROWS_AS(parse({"--served-model-name", ""}), CLI::ValidationError);
  CHECK_THROWS_AS(parse({"--served-model-name", "a\nb"}), CLI::ValidationError);
  CHECK_THROWS_AS(parse({"--cors-origin", "*\r\nSet-Cookie: a=b"}), CLI::ValidationError);
  CHECK_THROWS_AS(parse({"--cors-origin", ""}), CLI::ValidationError);
  CHECK_THROWS_AS(parse({"--host", ""}), CLI::ValidationError);
  CHECK_THROWS_AS(parse({"--host", "a b"}), CLI::ValidationError);
}

TEST_CASE("a key that stands in the file twice is an error with its line") {
  const options_file twice("port = 9000\n\nport = 9001\n");
  CHECK_THROWS_WITH_AS(parse({"--config", twice.name()}), "--config, line 3: 'port' stands in the file twice",
                       CLI::ConfigError);
  const options_file apart("port = 9000\n[serve]\nmax-running = 5\nport = 9001\n");
  CHECK_THROWS_WITH_AS(parse({"--config", apart.name()}), "--config: 'port' stands in the file twice",
                       CLI::ConfigError);
}

TEST_CASE("a text without its closing quote is an error with its line") {
  for (const std::string value : {"\"0.0.0.0", "'0.0.0.0", "\"", "\"0.0.0.0'", "\"a#b\""}) {
    CAPTURE(value);
    const options_file open_text("port = 9000\nhost = " + value + "\n");
    CHECK_THROWS_WITH_AS(
        parse({"--config", open_text.name()}),
        "--config, line 2: the text of 'host' has no end (# begins a comment, within a text too)",
        CLI::ConfigError);
  }
  const options_file good("host = \"0.0.0.0\"  # everywhere\n'port' = '9000'\n");
  CHECK(parse({"--config", good.name()}).node.gateway.port == 9000);
}

TEST_CASE("a key without a tenant's name has a tenant that no name can be") {
  const options_file keys("k1 red\nk2 red\nk4\nk5 k4\nkey x\nx\n");
  const auto read = cli::read_api_keys(keys.name());
  REQUIRE(read.has_value());
  std::set<std::string> tenants;
  for (const auto& [key, tenant] : *read) tenants.insert(tenant);
  CHECK(read->size() == 6);
  CHECK(tenants.size() == 5);  // k1 and k2 share one
  CHECK(read->at("k5") == "k4");
  CHECK(read->at("k4") != "k4");
}
