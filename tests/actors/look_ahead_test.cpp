// What requests in the queue will need: kept in a shard's DRAM, and brought there from SSD, before their
// turn.
#include <doctest/doctest.h>

#include <mutex>

#include "tests/actors/toy_cluster.hpp"
#include "tests/kvcache/temporary_folder.hpp"

using namespace yolk;
using namespace yolk::tests;

namespace schema = messages::schema;

namespace {

constexpr std::uint32_t prompt_tokens = 32;
constexpr std::uint32_t shard_blocks = 24;
constexpr std::uint32_t prefix_blocks = 7;  // whole blocks, but not the last token's

/// Puts wait until the gate is opened.
struct gate {
  std::mutex mutex;
  bool open = true;
  std::vector<std::function<void()>> held;

  void close() {
    const std::lock_guard lock(mutex);
    open = false;
  }
  void let_through() {
    std::vector<std::function<void()>> all;
    {
      const std::lock_guard lock(mutex);
      open = true;
      all.swap(held);
    }
    for (const auto& each : all) each();
  }
};

class gated_engine final : public transport::transfer_engine {
 public:
  gated_engine(std::unique_ptr<transport::transfer_engine> real, std::shared_ptr<gate> its_gate)
      : real_(std::move(real)), gate_(std::move(its_gate)) {}
  std::span<std::byte> region() override { return real_->region(); }
  const transport::region_descriptor& descriptor() const override { return real_->descriptor(); }
  void forget(const transport::region_descriptor& peer) override { real_->forget(peer); }
  transport::engine_counters counters() const override { return real_->counters(); }
  void put(const transport::region_descriptor& to, std::vector<transport::copy_range> ranges,
           core::duration deadline, completion done) override {
    const auto run = [this, to, ranges, deadline, done] { real_->put(to, ranges, deadline, done); };
    {
      const std::lock_guard lock(gate_->mutex);
      if (!gate_->open) return gate_->held.push_back(run);
    }
    run();
  }
  void get(const transport::region_descriptor& from, std::vector<transport::copy_range> ranges,
           core::duration deadline, completion done) override {
    real_->get(from, std::move(ranges), deadline, std::move(done));
  }

 private:
  std::unique_ptr<transport::transfer_engine> real_;
  std::shared_ptr<gate> gate_;
};

std::uint32_t cached(toy_cluster& cluster) {
  return cluster.status_of(cluster.shard()).read()->getBlocksCached();
}

/// Whether `count` blocks came into DRAM. A deadline, not a wait.
bool come_into_dram(toy_cluster& cluster, std::uint32_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (cached(cluster) < count)
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

double read_from_ssd(const toy_cluster& cluster) {
  const auto text = cluster.recorder()->expose();
  const auto at = text.find("event=\"read\"", text.find("\nyolk_ssd_blocks_total{"));
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(text.find(' ', at)));
}

/// A prompt that is on SSD and nowhere else.
std::vector<core::token_id> prompt_on_ssd(toy_cluster& cluster) {
  const auto prompt = prompt_of(1, prompt_tokens);
  CHECK(cluster.generate({.prompt = prompt, .max_tokens = 1}).tokens[0] == toy_generate(prompt, 1));
  CHECK(cluster.settle() == "");
  cluster.kill_shard();
  cluster.start_shard();
  cluster.kill_prefill(0);
  cluster.start_prefill(0);
  CHECK(cluster.settle() == "");
  CHECK(cached(cluster) == 0);
  return prompt;
}

constexpr std::uint64_t leg = 9001;

void want(toy_cluster& cluster, const std::vector<core::token_id>& prompt) {
  const auto request = messages::generate_request::build([&](schema::GenerateRequest::Builder builder) {
    builder.setTokens(actors::as_data(prompt));
    actors::write(builder.initRoot(), kvcache::make_root({.model = "toy"}));
  });
  caf::anon_send(caf::actor_cast<messages::cache_shard_actor>(cluster.shard()),
                 messages::want_prefix::build([&](schema::WantPrefix::Builder builder) {
                   builder.initHeader().setLegId(leg);
                   builder.setMaxTokens(prompt_tokens - 1);
                 }),
                 request);
}

void unwant(toy_cluster& cluster) {
  caf::anon_send(caf::actor_cast<messages::cache_shard_actor>(cluster.shard()),
                 messages::unwant_prefix::build(
                     [&](schema::UnwantPrefix::Builder builder) { builder.initHeader().setLegId(leg); }));
}

/// Fresh prompts, until so many blocks were evicted. (An offer that comes while the blocks that it could
/// replace are being saved is declined.)
void press(toy_cluster& cluster, std::uint32_t evictions, std::size_t tokens = prompt_tokens) {
  static std::uint64_t seed = 100;
  const auto evicted = [&] { return cluster.status_of(cluster.shard()).read()->getEvictedBlocks(); };
  const auto most = evicted() + evictions;
  for (int i = 0; i < 2000 && evicted() < most; ++i) {
    const auto other = prompt_of(++seed, tokens);
    CHECK(cluster.generate({.prompt = other, .max_tokens = 1}).tokens[0] == toy_generate(other, 1));
  }
  CHECK(evicted() >= most);
}

cluster_shape shape_with(const std::filesystem::path& folder, kvcache::eviction_order order) {
  cluster_shape shape{.shard_blocks = shard_blocks, .ssd_folder = folder};
  shape.eviction = order;
  return shape;
}

}  // namespace

TEST_CASE(
    "what a queued request will need comes from SSD into DRAM, and stays under pressure until its turn") {
  const temporary_folder folder;
  toy_cluster cluster(shape_with(folder.path(), kvcache::eviction_order::look_ahead));
  const auto prompt = prompt_on_ssd(cluster);
  want(cluster, prompt);
  REQUIRE(come_into_dram(cluster, prefix_blocks));
  press(cluster, 2 * shard_blocks);
  const auto before = read_from_ssd(cluster);
  CHECK(before == prefix_blocks);
  const auto outcome = cluster.generate({.prompt = prompt, .max_tokens = 4});
  CHECK(outcome.tokens[0] == toy_generate(prompt, 4));
  CHECK(outcome.cached_tokens == prefix_blocks * 4);
  CHECK(read_from_ssd(cluster) == before);
  // Withdrawn, it goes as others do.
  unwant(cluster);
  CHECK(cluster.settle() == "");
  press(cluster, 2 * shard_blocks);
  cluster.kill_prefill(0);
  cluster.start_prefill(0);
  CHECK(cluster.settle() == "");
  CHECK(cluster.generate({.prompt = prompt, .max_tokens = 4}).cached_tokens == prefix_blocks * 4);
  CHECK(cluster.settle() == "");
  CHECK(read_from_ssd(cluster) > before);
}

TEST_CASE("without look-ahead nothing is brought in for a request that waits") {
  const temporary_folder folder;
  toy_cluster cluster(shape_with(folder.path(), kvcache::eviction_order::lru));
  const auto prompt = prompt_on_ssd(cluster);
  want(cluster, prompt);
  CHECK(cluster.settle() == "");
  CHECK(cached(cluster) == 0);
}

TEST_CASE("wants pin no more than a half of DRAM") {
  const temporary_folder folder;
  auto shape = shape_with(folder.path(), kvcache::eviction_order::look_ahead);
  shape.shard_blocks = 8;
  toy_cluster cluster(shape);
  const auto prompt = prompt_of(1, prompt_tokens);
  CHECK(cluster.generate({.prompt = prompt, .max_tokens = 1}).cached_tokens == 0);
  CHECK(cluster.settle() == "");
  CHECK(cached(cluster) == 8);
  want(cluster, prompt);
  press(cluster, 12, prompt_tokens / 2);  // goes on through the other half
  cluster.kill_prefill(0);
  cluster.start_prefill(0);
  unwant(cluster);
  CHECK(cluster.settle() == "");
  const auto before = read_from_ssd(cluster);
  CHECK(cluster.generate({.prompt = prompt, .max_tokens = 4}).cached_tokens == prefix_blocks * 4);
  CHECK(cluster.settle() == "");
  CHECK(read_from_ssd(cluster) - before == prefix_blocks - 4);
}

TEST_CASE("a prefill worker says what its queue will need, and takes it back when the request is cancelled") {
  for (const bool cancelled : {false, true}) {
    CAPTURE(cancelled);
    const temporary_folder folder;
    const auto pushes = std::make_shared<gate>();
    auto shape = shape_with(folder.path(), kvcache::eviction_order::look_ahead);
    shape.prefill_blocks = 10;
    shape.wrap = [pushes](const std::string& who, std::unique_ptr<transport::transfer_engine> real)
        -> std::unique_ptr<transport::transfer_engine> {
      if (who != "prefill") return real;
      return std::make_unique<gated_engine>(std::move(real), pushes);
    };
    toy_cluster cluster(shape);
    const auto prompt = prompt_on_ssd(cluster);
    pushes->close();
    // The first holds the worker's blocks, the second is first in the queue, the third behind it.
    const auto first = prompt_of(31, prompt_tokens);
    const auto second = prompt_of(32, prompt_tokens);
    auto running = cluster.begin({.prompt = first, .max_tokens = 4});
    auto next = cluster.begin({.prompt = second, .max_tokens = 4});
    auto last = cluster.begin({.prompt = prompt, .max_tokens = 4});
    CHECK(come_into_dram(cluster, prefix_blocks));
    if (cancelled) cluster.cancel(last);
    pushes->let_through();
    CHECK(cluster.await(running).tokens[0] == toy_generate(first, 4));
    CHECK(cluster.await(next).tokens[0] == toy_generate(second, 4));
    const auto outcome = cluster.await(last);
    if (!cancelled) CHECK(outcome.tokens[0] == toy_generate(prompt, 4));
    if (!cancelled) CHECK(outcome.cached_tokens == prefix_blocks * 4);
    CHECK(read_from_ssd(cluster) == prefix_blocks);
    CHECK(cluster.settle() == "");  // no pin is left
  }
}
