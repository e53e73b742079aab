#include <doctest/doctest.h>

#include "core/random.hpp"
#include "tests/actors/toy_cluster.hpp"

using namespace yolk;
using namespace yolk::tests;

namespace {

/// An engine between a worker and its real one that spoils some transfers.
class spoiling_engine final : public transport::transfer_engine {
 public:
  enum class fault { none, fail, corrupt };
  using plan = std::function<fault(bool is_put)>;
  spoiling_engine(std::unique_ptr<transport::transfer_engine> real, plan decide)
      : real_(std::move(real)), decide_(std::move(decide)) {}

  std::span<std::byte> region() override { return real_->region(); }
  const transport::region_descriptor& descriptor() const override { return real_->descriptor(); }
  void forget(const transport::region_descriptor& peer) override { real_->forget(peer); }
  transport::engine_counters counters() const override { return real_->counters(); }

  void put(const transport::region_descriptor& to, std::vector<transport::copy_range> ranges,
           core::duration deadline, completion done) override {
    switch (decide_(true)) {
      case fault::none:
        return real_->put(to, std::move(ranges), deadline, std::move(done));
      case fault::fail:
        return refuse(std::move(done));
      case fault::corrupt:
        // Another block's bytes arrive in this one's place.
        for (auto& range : ranges)
          range.local_offset = (range.local_offset + range.bytes) % (region().size() / 2);
        return real_->put(to, std::move(ranges), deadline, std::move(done));
    }
  }
  void get(const transport::region_descriptor& from, std::vector<transport::copy_range> ranges,
           core::duration deadline, completion done) override {
    switch (decide_(false)) {
      case fault::none:
        return real_->get(from, std::move(ranges), deadline, std::move(done));
      case fault::fail:
        return refuse(std::move(done));
      case fault::corrupt: {
        const auto first = ranges.front();
        return real_->get(from, std::move(ranges), deadline,
                          [this, first, done = std::move(done)](auto outcome) {
                            region()[first.local_offset + first.bytes / 2] ^= std::byte{1};
                            done(std::move(outcome));
                          });
      }
    }
  }

 private:
  static void refuse(completion done) {
    done(core::failure<transport::errc>{transport::errc::transfer_failed, "planned"});
  }

  std::unique_ptr<transport::transfer_engine> real_;
  plan decide_;
};

/// Some of the transfers of some actors fail or arrive changed, by a seed.
cluster_shape spoiled(std::uint64_t seed, const std::string& whose, spoiling_engine::fault fault) {
  cluster_shape shape;
  shape.wrap = [seed, whose, fault](const std::string& who, std::unique_ptr<transport::transfer_engine> real)
      -> std::unique_ptr<transport::transfer_engine> {
    if (who != whose) return real;
    auto random = std::make_shared<core::random_source>(seed);
    auto guard = std::make_shared<std::mutex>();
    return std::make_unique<spoiling_engine>(std::move(real), [random, guard, fault](bool) {
      const std::lock_guard lock(*guard);
      return random->below(8) == 0 ? fault : spoiling_engine::fault::none;
    });
  };
  return shape;
}

}  // namespace

TEST_CASE("KV that fails on its way or arrives changed costs a resume, never a wrong token") {
  for (const auto& whose : {"prefill", "shard"})
    for (const auto fault : {spoiling_engine::fault::fail, spoiling_engine::fault::corrupt}) {
      const std::uint64_t seed = 17;
      CAPTURE(seed);
      CAPTURE(whose);
      CAPTURE(static_cast<int>(fault));
      // A small prefill pool, so that prefixes come back from the shard.
      auto shape = spoiled(seed, whose, fault);
      shape.prefill_blocks = 12;
      toy_cluster cluster(shape);
      std::uint32_t resumes = 0;
      for (std::uint64_t i = 0; i < 24; ++i) {
        const auto prompt = prompt_of(200 + i % 5, 24);
        const auto outcome = cluster.generate({.prompt = prompt, .max_tokens = 10});
        CHECK_FALSE(outcome.gave_up);
        CHECK(outcome.tokens[0] == toy_generate(prompt, 10));
        resumes += outcome.resumes;
      }
      if (std::string(whose) == "prefill") CHECK(resumes > 0);
      CHECK(cluster.settle() == "");
    }
}

TEST_CASE("streams survive a killed decode worker with the tokens that they would have had") {
  toy_cluster cluster({.decode_workers = 2, .prefill_blocks = 200, .decode_blocks = 200});
  std::vector<toy_cluster::running> all;
  for (std::uint64_t i = 0; i < 12; ++i)
    all.push_back(cluster.begin(
        {.prompt = prompt_of(300 + i, 10), .max_tokens = 300, .temperature = i % 2 ? 0.0f : 1.0f}));
  cluster.kill_decode(0);
  cluster.start_decode(0);
  cluster.kill_decode(1);
  cluster.start_decode(1);
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    const auto outcome = cluster.await(all[i]);
    CHECK_FALSE(outcome.gave_up);
    CHECK(outcome.tokens[0] == toy_generate(prompt_of(300 + i, 10), 300));
  }
  CHECK(cluster.settle() == "");
}

TEST_CASE(
    "streams survive a killed prefill worker, and a shard that dies takes nothing with it but its cache") {
  toy_cluster cluster({});
  std::vector<toy_cluster::running> all;
  for (std::uint64_t i = 0; i < 12; ++i)
    all.push_back(cluster.begin({.prompt = prompt_of(320 + i, 40), .max_tokens = 50}));
  cluster.kill_prefill(0);
  cluster.start_prefill(0);
  cluster.kill_shard();
  cluster.start_shard();
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    const auto outcome = cluster.await(all[i]);
    CHECK_FALSE(outcome.gave_up);
    CHECK(outcome.tokens[0] == toy_generate(prompt_of(320 + i, 40), 50));
  }
  CHECK(cluster.settle() == "");
}

TEST_CASE("kills at random moments while requests come and go lose nothing and leave nothing behind") {
  const std::uint64_t seed = 23;
  CAPTURE(seed);
  core::random_source random(seed);
  toy_cluster cluster({.prefill_workers = 2, .decode_workers = 2, .decode_blocks = 48});
  struct expected {
    std::vector<core::token_id> prompt;
    std::uint32_t max_tokens;
    toy_cluster::running running;
  };
  std::vector<expected> all;
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 4; ++i) {
      expected one{prompt_of(400 + random.below(20), 4 + random.below(30)),
                   static_cast<std::uint32_t>(1 + random.below(60)),
                   {}};
      one.running = cluster.begin({.prompt = one.prompt, .max_tokens = one.max_tokens});
      all.push_back(std::move(one));
    }
    const auto index = static_cast<std::uint32_t>(random.below(2));
    switch (random.below(3)) {
      case 0:
        cluster.kill_decode(index);
        cluster.start_decode(index);
        break;
      case 1:
        cluster.kill_prefill(index);
        cluster.start_prefill(index);
        break;
      default:
        cluster.kill_shard();
        cluster.start_shard();
    }
  }
  for (auto& one : all) {
    const auto outcome = cluster.await(one.running);
    CAPTURE(outcome.failures.empty() ? std::string() : outcome.failures.back());
    CHECK_FALSE(outcome.gave_up);
    CHECK(outcome.tokens[0] == toy_generate(one.prompt, one.max_tokens));
  }
  CHECK(cluster.settle() == "");
}

TEST_CASE("a sequence without finite logits fails, in prefill or later, and leaves nothing behind") {
  cluster_shape shape;
  shape.finite_tokens = 40;
  toy_cluster cluster(shape);
  const auto failed = [](const generation_outcome& outcome) {
    return outcome.gave_up && outcome.failures.size() == 1 &&
           outcome.failures[0].find("no finite logits") != std::string::npos;
  };
  CHECK(failed(cluster.generate({.prompt = prompt_of(1, 41)})));
  const auto prompt = prompt_of(2, 38);
  for (const std::uint32_t choices : {1u, 3u}) {
    const auto outcome = cluster.generate({.prompt = prompt, .max_tokens = 8, .choices = choices});
    CHECK(failed(outcome));
    for (const auto& tokens : outcome.tokens) CHECK(tokens == toy_generate(prompt, 3));
  }
  CHECK(cluster.generate({.prompt = prompt, .max_tokens = 3}).tokens[0] == toy_generate(prompt, 3));
  CHECK(cluster.settle() == "");
}
