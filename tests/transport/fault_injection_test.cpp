#include "transport/fault_injection.hpp"

#include <algorithm>
#include <bit>

#include "tests/transport/support.hpp"

namespace yolk::transport {
namespace {

using namespace testing;

constexpr std::size_t region_bytes = 1 << 16;

std::unique_ptr<faulty_engine> start_faulty(const fault_plan& plan) {
  return std::make_unique<faulty_engine>(start_engine(region_bytes + faulty_engine::scratch_bytes, 1), plan);
}

int differing_bits(std::span<const std::byte> a, std::span<const std::byte> b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    count += std::popcount(std::to_integer<unsigned>(a[i] ^ b[i]));
  }
  return count;
}

TEST_CASE("without faults the bytes arrive") {
  const auto a = start_faulty({});
  const auto b = start_engine(region_bytes, 2);
  CHECK(a->region().size() == region_bytes);
  fill_random(a->region(), 1);
  CHECK(run_put(*a, b->descriptor(), {{0, 0, region_bytes}}).has_value());
  CHECK(same_bytes(a->region(), b->region()));
}

TEST_CASE("a corrupted transfer is done, and one bit of what arrived is wrong") {
  fault_plan plan;
  plan.corrupt_per_mille = 1000;
  const auto a = start_faulty(plan);
  const auto b = start_engine(region_bytes, 2);
  fill_random(a->region(), 2);
  const std::vector<std::byte> sent(a->region().begin(), a->region().end());
  CHECK(run_put(*a, b->descriptor(), {{0, 0, region_bytes / 2}, {region_bytes / 2, region_bytes / 2, 100}})
            .has_value());
  CHECK(differing_bits(std::span(sent).first(region_bytes / 2 + 100),
                       b->region().first(region_bytes / 2 + 100)) == 1);
  CHECK(same_bytes(a->region(), sent));  // the source is as it was

  fill_random(b->region(), 3);
  CHECK(run_get(*a, b->descriptor(), {{10, 10, 1000}}).has_value());
  CHECK(differing_bits(a->region().subspan(10, 1000), b->region().subspan(10, 1000)) == 1);
  CHECK(a->faults().corrupted == 2);
}

TEST_CASE("a dropped transfer ends by its deadline and moves nothing") {
  fault_plan plan;
  plan.drop_per_mille = 1000;
  const auto a = start_faulty(plan);
  const auto b = start_engine(region_bytes, 2);
  fill_random(a->region(), 4);
  const auto dropped = run_put(*a, b->descriptor(), {{0, 0, 1000}}, 10ms);
  REQUIRE(!dropped.has_value());
  CHECK(dropped.error().code == errc::deadline_exceeded);
  CHECK(std::ranges::all_of(b->region(), [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_CASE("a failed transfer is unreachable, a delayed one is done") {
  fault_plan plan;
  plan.fail_per_mille = 1000;
  const auto a = start_faulty(plan);
  const auto b = start_engine(region_bytes, 2);
  const auto failed = run_get(*a, b->descriptor(), {{0, 0, 1000}});
  REQUIRE(!failed.has_value());
  CHECK(failed.error().code == errc::peer_unreachable);
  plan.fail_per_mille = 0;
  plan.delay_per_mille = 1000;
  a->set_plan(plan);
  CHECK(run_get(*a, b->descriptor(), {{0, 0, 1000}}).has_value());
  CHECK(a->faults().delayed == 1);
}

TEST_CASE("the same seed gives the same faults, and each transfer completes once") {
  constexpr std::size_t count = 400;
  fault_plan plan;
  plan.seed = 99;
  plan.delay_per_mille = plan.drop_per_mille = plan.fail_per_mille = plan.corrupt_per_mille = 200;
  plan.max_delay = 1ms;
  std::vector<std::vector<std::optional<errc>>> runs;
  std::vector<fault_counters> counted;
  for (int run = 0; run < 2; ++run) {
    CAPTURE(plan.seed);
    const auto a = start_faulty(plan);
    const auto b = start_engine(region_bytes, 2);
    completions done;
    // Enough time that only what is dropped ends by it.
    for (std::size_t i = 0; i < count; ++i)
      a->put(b->descriptor(), {{i * 100, i * 100, 100}}, 2s, done.on(i));
    REQUIRE(done.wait_for(count));
    runs.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(done.times(i) == 1);
      runs.back().push_back(done.error(i));
    }
    counted.push_back(a->faults());
  }
  CHECK(runs[0] == runs[1]);
  CHECK(counted[0].dropped == counted[1].dropped);
  CHECK(counted[0].dropped > count / 10);
  CHECK(counted[0].failed > count / 10);
  CHECK(counted[0].delayed > count / 10);
}

TEST_CASE("an engine that ends completes what its plan holds back") {
  fault_plan plan;
  plan.drop_per_mille = 1000;
  auto a = start_faulty(plan);
  const auto b = start_engine(region_bytes, 2);
  completions done;
  for (std::size_t i = 0; i < 5; ++i)
    a->put(b->descriptor(), {{0, 0, 10}}, core::duration::max(), done.on(i));
  a.reset();
  CHECK(done.count() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(done.error(i) == errc::stopped);
}

}  // namespace
}  // namespace yolk::transport
