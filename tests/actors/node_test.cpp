#include <doctest/doctest.h>

#include <caf/all.hpp>
#include <caf/io/middleman.hpp>
#include <filesystem>
#include <thread>

#include "actors/supervisor/supervisor.hpp"
#include "core/random.hpp"
#include "gpu/host/host_platform.hpp"
#include "model/loaded_model.hpp"
#include "tests/actors/gateway/gateway_client.hpp"

// A whole node over the builtin model, with its children killed while it serves.
using namespace yolk;
using kind = messages::schema::ActorKind;

namespace {

constexpr auto patience = std::chrono::seconds(240);

struct io_config : caf::actor_system_config {
  io_config() { load<caf::io::middleman>(); }
};

class served_node {
 public:
  served_node() : system_(config_) {
    auto platform = gpu::host::make_host_platform({.thread_count = 1, .prefill_share = 1.0});
    REQUIRE(platform);
    auto model = model::load_model(std::filesystem::path(YOLK_SOURCE_DIR) / "model/builtin", **platform);
    REQUIRE(model);
    actors::node_options options;
    options.prefill_kv_bytes = options.decode_kv_bytes = options.cache_dram_bytes = std::uint64_t{32} << 20;
    options.gateway.port = 0;
    options.status_interval = std::chrono::milliseconds(50);
    auto started = actors::start_node(
        system_, std::make_shared<const actors::worker_factory>(options, *model, *platform,
                                                                std::make_shared<actors::metrics>("builtin"),
                                                                std::make_shared<core::steady_clock>()));
    REQUIRE(started);
    node_ = *started;
  }
  ~served_node() {
    caf::scoped_actor self{system_};
    caf::anon_send(node_.supervisor, actors::stop_atom::value);
    self->wait_for(node_.supervisor);
  }

  [[nodiscard]] std::uint16_t port() const { return node_.port; }

  caf::strong_actor_ptr find(kind which) {
    caf::scoped_actor self{system_};
    caf::strong_actor_ptr found;
    self->request(node_.supervisor, patience, actors::find_atom::value, static_cast<std::uint16_t>(which),
                  std::uint32_t{0})
        .receive([&](const caf::strong_actor_ptr& actor) { found = actor; }, [](const caf::error&) {});
    return found;
  }
  /// Kills the actor; returns when its successor is there.
  void kill(kind which) {
    const auto victim = find(which);
    REQUIRE(victim != nullptr);
    caf::anon_send_exit(caf::actor_cast<caf::actor>(victim), caf::exit_reason::kill);
    const auto end = std::chrono::steady_clock::now() + patience;
    for (auto now = find(which); now == nullptr || now == victim; now = find(which))
      REQUIRE(std::chrono::steady_clock::now() < end);
  }
  void await_health(int status) {
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
      tests::gateway_client client(port());
      client.get("/health");
      if (client.answer().status == status) return;
      REQUIRE(std::chrono::steady_clock::now() < end);
    }
  }

 private:
  io_config config_;
  caf::actor_system system_;
  actors::running_node node_;
};

std::string stream_body(std::uint64_t seed) {
  return R"({"prompt":"It is a truth universally acknowledged, that )" + std::to_string(seed) +
         R"( a single man","max_tokens":300,"ignore_eos":true,"seed":)" + std::to_string(seed) +
         R"(,"temperature":0.8,"stream":true})";
}

}  // namespace

TEST_CASE("a stream goes on with the same text whichever actor dies under it") {
  served_node node;
  for (const auto which : {kind::DECODE_WORKER, kind::PREFILL_WORKER, kind::CACHE_SHARD, kind::CONDUCTOR,
                           kind::ADMISSION_CONTROLLER}) {
    CAPTURE(static_cast<int>(which));
    const std::uint64_t seed = 100 + static_cast<std::uint64_t>(which);
    tests::gateway_client undisturbed(node.port());
    undisturbed.post("/v1/completions", stream_body(seed));
    const auto expected = tests::all_of_field(undisturbed.read_until("[DONE]"), "text");
    REQUIRE(expected.size() > 0);

    tests::gateway_client client(node.port());
    client.post("/v1/completions", stream_body(seed));
    client.read_until("\"text\":");
    node.kill(which);
    const auto body = client.read_until("[DONE]");
    CHECK(tests::all_of_field(body, "text") == expected);
    CHECK(body.find("error") == std::string::npos);
    node.await_health(200);
  }
}

TEST_CASE("requests that meet a restarting actor are answered, none hangs") {
  served_node node;
  const std::uint64_t seed = 31;
  CAPTURE(seed);
  core::random_source random(seed);
  const std::vector<kind> kinds = {kind::DECODE_WORKER, kind::PREFILL_WORKER, kind::CACHE_SHARD,
                                   kind::CONDUCTOR, kind::ADMISSION_CONTROLLER};
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<tests::gateway_client>> clients;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(std::make_unique<tests::gateway_client>(node.port()));
      clients.back()->post("/v1/completions", R"({"prompt":"Round )" + std::to_string(random.below(1000)) +
                                                  R"(","max_tokens":20})");
    }
    node.kill(kinds[random.below(kinds.size())]);
    for (auto& client : clients) {
      const auto answer = client->answer();
      CHECK((answer.status == 200 || answer.status == 503));
    }
  }
  node.await_health(200);
}

TEST_CASE("a gateway that dies is back on its port") {
  served_node node;
  node.await_health(200);
  node.kill(kind::HTTP_GATEWAY);
  node.await_health(200);
  tests::gateway_client client(node.port());
  client.post("/v1/completions", R"({"prompt":"Once","max_tokens":4})");
  CHECK(client.answer().status == 200);
}
