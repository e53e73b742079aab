#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "tests/transport/peer_process.hpp"
#include "tests/transport/support.hpp"
#include "transport/transfer_engine.hpp"

namespace yolk::transport {
namespace {

using namespace testing;

constexpr std::size_t region_bytes = 8 << 20;
const std::string no_posix = engine_options{}.transports;

bool is_filled_with(std::span<const std::byte> bytes, unsigned value) {
  return std::ranges::all_of(bytes,
                             [value](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

/// The engine under test is well: it serves a peer that has just come up.
void check_serves_new_peer(transfer_engine& engine, const std::string& transports) {
  const peer_process fresh({region_bytes, 1000, transports, 77});
  const auto fetched = run_get(engine, fresh.descriptor(), {{0, 0, 1 << 20}});
  REQUIRE_MESSAGE(fetched.has_value(), message_of(fetched));
  CHECK(is_filled_with(engine.region().first(1 << 20), 77));
}

TEST_CASE("bytes travel between processes") {
  for (const std::string& transports : {no_posix, std::string("tcp")}) {
    CAPTURE(transports);
    const auto engine = start_engine(region_bytes, 1, {transports});
    const peer_process peer({region_bytes, 2, transports, 42});
    const auto fetched = run_get(*engine, peer.descriptor(), {{0, 0, region_bytes}});
    REQUIRE_MESSAGE(fetched.has_value(), message_of(fetched));
    CHECK(is_filled_with(engine->region(), 42));
    fill_random(engine->region(), 11);
    const std::vector<std::byte> sent(engine->region().begin(), engine->region().begin() + 100'000);
    REQUIRE(run_put(*engine, peer.descriptor(), {{0, 777, 100'000}}).has_value());
    std::ranges::fill(engine->region(), std::byte{0});
    REQUIRE(run_get(*engine, peer.descriptor(), {{5, 777, 100'000}}).has_value());
    CHECK(std::equal(sent.begin(), sent.end(), engine->region().begin() + 5));
  }
}

TEST_CASE("each transfer with a peer that is killed meanwhile completes once, and a new peer is served") {
  constexpr std::size_t count = 40;
  for (const std::string& transports : {no_posix, std::string("tcp")}) {
    for (const bool is_put : {true, false}) {
      CAPTURE(transports);
      CAPTURE(is_put);
      const auto engine = start_engine(region_bytes, 1, {transports});
      peer_process peer({region_bytes, 2, transports, 1});
      REQUIRE(run_get(*engine, peer.descriptor(), {{0, 0, 100}}).has_value());
      completions done;
      for (std::size_t i = 0; i < count; ++i) {
        const std::vector<copy_range> ranges{{0, 0, region_bytes / 2},
                                             {region_bytes / 2, region_bytes / 2, 1000}};
        if (is_put) {
          engine->put(peer.descriptor(), ranges, 20s, done.on(i));
        } else {
          engine->get(peer.descriptor(), ranges, 20s, done.on(i));
        }
      }
      REQUIRE(done.wait_for(1));  // it is in the middle of it
      peer.kill();
      REQUIRE(done.wait_for(count));
      for (std::size_t i = 0; i < count; ++i) CHECK(done.times(i) == 1);
      check_serves_new_peer(*engine, transports);
      for (std::size_t i = 0; i < count; ++i) CHECK(done.times(i) == 1);
    }
  }
}

TEST_CASE("transfers with a peer that hangs end by their deadlines, and a new peer is served") {
  constexpr std::size_t count = 6;
  const auto engine = start_engine(region_bytes, 1, tcp);
  for (const bool is_put : {true, false}) {
    CAPTURE(is_put);
    const peer_process peer({region_bytes, 2, "tcp", 1});
    REQUIRE(run_get(*engine, peer.descriptor(), {{0, 0, 100}}).has_value());
    peer.stop();
    completions done;
    for (std::size_t i = 0; i < count; ++i) {
      // The first one's deadline closes the endpoint; the others had more time.
      const core::duration deadline = i == 0 ? core::duration(300ms) : core::duration(20s);
      if (is_put) {
        engine->put(peer.descriptor(), {{0, 0, region_bytes}}, deadline, done.on(i));
      } else {
        engine->get(peer.descriptor(), {{0, 0, region_bytes}}, deadline, done.on(i));
      }
    }
    REQUIRE(done.wait_for(count));
    CHECK(done.error(0) == errc::deadline_exceeded);
    for (std::size_t i = 1; i < count; ++i) CHECK(done.error(i) == errc::peer_unreachable);
    check_serves_new_peer(*engine, "tcp");
    for (std::size_t i = 0; i < count; ++i) CHECK(done.times(i) == 1);
    // Meanwhile nothing of the closed endpoint's may come into our region, not even when the peer goes on.
    std::ranges::fill(engine->region(), std::byte{9});
    peer.resume();
    const auto after = run_get(*engine, peer.descriptor(), {{0, 0, 100}});
    REQUIRE_MESSAGE(after.has_value(), message_of(after));
    CHECK(is_filled_with(engine->region().subspan(100), 9));
  }
}

TEST_CASE("a peer that hangs before the first exchange costs its own transfers only") {
  const auto engine = start_engine(region_bytes, 1, tcp);
  const peer_process hung({region_bytes, 2, "tcp", 1});
  const peer_process well({region_bytes, 3, "tcp", 5});
  hung.stop();
  completions done;
  engine->get(hung.descriptor(), {{0, 0, 100}}, 400ms, done.on(0));
  const auto fetched = run_get(*engine, well.descriptor(), {{0, 0, 1 << 20}});
  REQUIRE_MESSAGE(fetched.has_value(), message_of(fetched));
  REQUIRE(done.wait_for(1));
  CHECK(done.error(0) == errc::deadline_exceeded);
  hung.resume();
  CHECK(run_get(*engine, hung.descriptor(), {{0, 0, 100}}).has_value());
}

TEST_CASE("a transfer that waits its turn outlives the closing of the endpoint") {
  engine_options options;
  options.region_bytes = region_bytes;
  options.owner.value = 1;
  options.transports = "tcp";
  options.max_in_flight_bytes = region_bytes;
  const auto engine = start_engine(options);
  const peer_process peer({region_bytes, 2, "tcp", 6});
  REQUIRE(run_get(*engine, peer.descriptor(), {{0, 0, 100}}).has_value());
  peer.stop();
  completions done;
  engine->get(peer.descriptor(), {{0, 0, region_bytes}}, 300ms, done.on(0));
  engine->get(peer.descriptor(), {{0, 0, region_bytes}}, never_late,
              done.on(1));  // the limit keeps it waiting
  REQUIRE(done.wait_for(1));
  CHECK(done.error(0) == errc::deadline_exceeded);
  CHECK(done.times(1) == 0);
  peer.resume();
  REQUIRE(done.wait_for(2));
  CHECK(done.ok(1));
  CHECK(is_filled_with(engine->region(), 6));
}

TEST_CASE("a peer that is forgotten fails its open transfers at once") {
  const auto engine = start_engine(region_bytes, 1, tcp);
  const peer_process peer({region_bytes, 2, "tcp", 1});
  REQUIRE(run_get(*engine, peer.descriptor(), {{0, 0, 100}}).has_value());
  peer.stop();
  completions done;
  for (std::size_t i = 0; i < 5; ++i)
    engine->put(peer.descriptor(), {{0, 0, region_bytes}}, never_late, done.on(i));
  engine->forget(peer.descriptor());
  REQUIRE(done.wait_for(5));
  for (std::size_t i = 0; i < 5; ++i) CHECK(done.error(i) == errc::peer_unreachable);
  check_serves_new_peer(*engine, "tcp");
}

TEST_CASE("one peer too many is refused while the others have transfers open") {
  engine_options options;
  options.region_bytes = region_bytes;
  options.owner.value = 1;
  options.transports = "tcp";
  options.max_cached_peers = 1;
  const auto engine = start_engine(options);
  const peer_process hung({region_bytes, 2, "tcp", 1});
  const peer_process other({region_bytes, 3, "tcp", 1});
  hung.stop();
  completions done;
  engine->get(hung.descriptor(), {{0, 0, 100}}, never_late, done.on(0));
  const auto refused = run_get(*engine, other.descriptor(), {{0, 0, 100}});
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == errc::too_much_in_flight);
  engine->forget(hung.descriptor());
  REQUIRE(done.wait_for(1));
  CHECK(run_get(*engine, other.descriptor(), {{0, 0, 100}}).has_value());
}

TEST_CASE("an engine that ends while its peer hangs completes what is open") {
  completions done;
  {
    const peer_process peer({region_bytes, 2, "tcp", 1});
    auto engine = start_engine(region_bytes, 1, tcp);
    REQUIRE(run_get(*engine, peer.descriptor(), {{0, 0, 100}}).has_value());
    peer.stop();
    for (std::size_t i = 0; i < 5; ++i) {
      engine->put(peer.descriptor(), {{0, 0, region_bytes}}, never_late, done.on(i));
    }
    engine.reset();
  }
  CHECK(done.count() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(done.error(i) == errc::stopped);
}

TEST_CASE("the descriptor of a process that was killed and forgotten is refused, its successor's is served") {
  for (const std::string& transports : {no_posix, std::string("tcp")}) {
    CAPTURE(transports);
    const auto engine = start_engine(region_bytes, 1, {transports});
    peer_process first({region_bytes, 2, transports, 1});
    REQUIRE(run_get(*engine, first.descriptor(), {{0, 0, 100}}).has_value());
    first.kill();
    engine->forget(first.descriptor());
    const peer_process second({region_bytes, 3, transports, 2});
    const auto stale = run_get(*engine, first.descriptor(), {{0, 0, 100}}, 10s);
    REQUIRE(!stale.has_value());
    CHECK(stale.error().code == errc::peer_unreachable);
    REQUIRE(run_get(*engine, second.descriptor(), {{0, 0, 100}}).has_value());
    CHECK(is_filled_with(engine->region().first(100), 2));
  }
}

TEST_CASE("an initiator that dies in the middle does not take its target along") {
  // The target is in this process; initiators are engines here too, ended with much under way.
  const auto target = start_engine(region_bytes, 1, tcp);
  for (std::uint64_t round = 0; round < 10; ++round) {
    completions done;
    auto initiator = start_engine(region_bytes, 100 + round, tcp);
    REQUIRE(run_put(*initiator, target->descriptor(), {{0, 0, 10}}).has_value());
    std::vector<copy_range> ranges;
    for (std::uint64_t at = 0; at + 20'000 <= region_bytes; at += 20'000) ranges.push_back({at, at, 10'000});
    for (std::size_t i = 0; i < 20; ++i) {
      if (i % 2 == 0) {
        initiator->put(target->descriptor(), ranges, never_late, done.on(i));
      } else {
        initiator->get(target->descriptor(), ranges, never_late, done.on(i));
      }
    }
    REQUIRE(done.wait_for(1));
    initiator.reset();
    CHECK(done.count() == 20);
  }
  check_serves_new_peer(*target, "tcp");
}

}  // namespace
}  // namespace yolk::transport
