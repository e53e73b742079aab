#include "transport/transfer_engine.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>
#include <thread>

#include "tests/transport/support.hpp"
#include "transport/descriptor_seal.hpp"

namespace yolk::transport {
namespace {

using namespace testing;

constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();

/// Ranges that do not overlap at their destination (there the order of arrival is nobody's promise): the
/// destination is cut into pieces, the sources lie anywhere.
std::vector<copy_range> scattered_ranges(std::size_t region_bytes, bool local_is_destination,
                                         std::uint64_t seed) {
  core::random_source random(seed);
  std::vector<copy_range> ranges;
  for (std::uint64_t at = random.below(5000); at < region_bytes;) {
    const std::uint64_t bytes =
        std::min(random.below(3) == 0 ? random.below(64) : random.below(20'000), region_bytes - at);
    const std::uint64_t source = random.below(region_bytes - bytes + 1);
    ranges.push_back(local_is_destination ? copy_range{at, source, bytes} : copy_range{source, at, bytes});
    at += bytes + random.below(2) * random.below(3000);
  }
  for (std::size_t i = ranges.size(); i > 1; --i) std::swap(ranges[i - 1], ranges[random.below(i)]);
  return ranges;
}

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("scattered ranges arrive bit for bit in both directions, and nothing else is touched") {
  constexpr std::size_t region_bytes = 3 << 20;
  for (const route& by : all_routes) {
    const auto a = start_engine(region_bytes, 1, by);
    const auto b = start_engine(region_bytes, 2, by);
    for (std::uint64_t seed = 100; seed < 110; ++seed) {
      CAPTURE(name_of(by));
      CAPTURE(seed);
      fill_random(a->region(), seed);
      fill_random(b->region(), seed + 1000);
      auto expected = copy_of(b->region());
      const auto put_ranges = scattered_ranges(region_bytes, false, seed);
      for (const auto& range : put_ranges) {
        std::copy_n(a->region().begin() + range.local_offset, range.bytes,
                    expected.begin() + range.remote_offset);
      }
      const auto sent = run_put(*a, b->descriptor(), put_ranges);
      REQUIRE_MESSAGE(sent.has_value(), message_of(sent));
      CHECK(same_bytes(b->region(), expected));

      expected = copy_of(a->region());
      const auto get_ranges = scattered_ranges(region_bytes, true, seed + 1);
      std::uint64_t total = 0;
      for (const auto& range : get_ranges) {
        std::copy_n(b->region().begin() + range.remote_offset, range.bytes,
                    expected.begin() + range.local_offset);
        total += range.bytes;
      }
      const auto fetched = run_get(*a, b->descriptor(), get_ranges);
      REQUIRE_MESSAGE(fetched.has_value(), message_of(fetched));
      CHECK(fetched->bytes == total);
      CHECK(same_bytes(a->region(), expected));
    }
  }
}

TEST_CASE("a transfer larger than a slice arrives whole") {
  constexpr std::size_t region_bytes = 40 << 20;
  const auto a = start_engine(region_bytes, 1);
  const auto b = start_engine(region_bytes, 2);
  fill_random(a->region(), 5);
  const auto sent = run_put(*a, b->descriptor(), {{1, 0, region_bytes - 1}});
  REQUIRE_MESSAGE(sent.has_value(), message_of(sent));
  CHECK(std::equal(a->region().begin() + 1, a->region().end(), b->region().begin()));
}

TEST_CASE("an engine is its own peer") {
  const auto engine = start_engine(1 << 20, 1);
  fill_random(engine->region(), 3);
  const auto sent = run_put(*engine, engine->descriptor(), {{0, 1 << 19, 100'000}});
  REQUIRE_MESSAGE(sent.has_value(), message_of(sent));
  CHECK(std::equal(engine->region().begin(), engine->region().begin() + 100'000,
                   engine->region().begin() + (1 << 19)));
  const auto fetched = run_get(*engine, engine->descriptor(), {{900'000, 0, 1000}});
  REQUIRE_MESSAGE(fetched.has_value(), message_of(fetched));
  CHECK(std::equal(engine->region().begin(), engine->region().begin() + 1000,
                   engine->region().begin() + 900'000));
}

TEST_CASE("a transfer of nothing is done") {
  const auto a = start_engine(4096, 1);
  const auto b = start_engine(4096, 2);
  CHECK(run_put(*a, b->descriptor(), {}).value().bytes == 0);
  CHECK(run_get(*a, b->descriptor(), {{4096, 4096, 0}}).value().bytes == 0);
}

TEST_CASE("each transfer of many threads to many peers completes once") {
  constexpr std::size_t thread_count = 4, per_thread = 300, region_bytes = 1 << 20;
  for (const route& by : all_routes) {
    CAPTURE(name_of(by));
    const auto origin = start_engine(region_bytes, 1, by);
    std::vector<std::unique_ptr<transfer_engine>> peers;
    for (std::uint64_t i = 0; i < 3; ++i) peers.push_back(start_engine(region_bytes, 10 + i, by));
    fill_random(origin->region(), 6);
    completions done;
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < thread_count; ++thread) {
      threads.emplace_back([&, thread] {
        core::random_source random(thread);
        for (std::size_t i = 0; i < per_thread; ++i) {
          // Each thread writes to a part of its own, at the peers and at home.
          const std::uint64_t part = region_bytes / 8 * thread;
          const copy_range range{part + random.below(1000), part + random.below(1000), random.below(100'000)};
          const auto& peer = peers[random.below(peers.size())]->descriptor();
          const auto index = thread * per_thread + i;
          if (random.below(2) == 0) {
            origin->put(peer, {range}, never_late, done.on(index));
          } else {
            origin->get(peer, {range}, never_late, done.on(index));
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    REQUIRE(done.wait_for(thread_count * per_thread));
    std::size_t failed = 0;
    for (std::size_t i = 0; i < thread_count * per_thread; ++i) {
      CHECK(done.times(i) == 1);
      failed += done.ok(i) ? 0 : 1;
    }
    CHECK(failed == 0);
    const auto counted = origin->counters();
    CHECK(counted.transfers == thread_count * per_thread);
    CHECK(counted.failures == 0);
    CHECK(counted.queued == 0);
  }
}

TEST_CASE("ranges outside either region are refused, and the engine goes on") {
  const auto a = start_engine(10'000, 1);
  const auto b = start_engine(20'000, 2);
  const std::vector<copy_range> wrong[] = {
      {{0, 0, 10'001}},   {{0, 19'999, 2}},     {{10'000, 0, 1}},
      {{huge, 0, 1}},     {{0, huge, 1}},       {{0, 0, huge}},
      {{5, 5, huge - 4}}, {{huge, huge, huge}}, {{0, 0, 1}, {1, huge - 1, 4}},
  };
  std::uint64_t refused = 0;
  for (const auto& ranges : wrong) {
    for (const auto& outcome : {run_put(*a, b->descriptor(), ranges), run_get(*a, b->descriptor(), ranges)}) {
      REQUIRE(!outcome.has_value());
      CHECK(outcome.error().code == errc::invalid_range);
      ++refused;
    }
  }
  CHECK(a->counters().failures == refused);
  CHECK(run_put(*a, b->descriptor(), {{0, 10'000, 10'000}}).has_value());
}

TEST_CASE("a malformed descriptor is an error, never a crash") {
  const auto a = start_engine(1 << 16, 1);
  const auto b = start_engine(1 << 16, 2);
  const auto& sound = b->descriptor();
  std::vector<region_descriptor> wrong(1);  // the first one is empty
  for (auto part : {&region_descriptor::remote_key, &region_descriptor::worker_address}) {
    for (std::size_t at = 0; at < (sound.*part).size(); ++at) {
      wrong.push_back(sound);
      (wrong.back().*part)[at] ^= std::byte{0x10};
      wrong.push_back(sound);
      (wrong.back().*part).resize(at);
    }
  }
  wrong.push_back(sound);
  std::swap(wrong.back().remote_key, wrong.back().worker_address);
  wrong.push_back(sound);
  wrong.back().base_address += 64;
  wrong.push_back(sound);
  wrong.back().length_bytes = huge;
  completions done;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    a->put(wrong[i], {{0, 0, 16}}, never_late, done.on(2 * i));
    a->get(wrong[i], {{0, 0, 16}}, never_late, done.on(2 * i + 1));
    a->forget(wrong[i]);
  }
  REQUIRE(done.wait_for(2 * wrong.size()));
  for (std::size_t i = 0; i < 2 * wrong.size(); ++i) CHECK(done.error(i) == errc::peer_unreachable);
  CHECK(run_put(*a, sound, {{0, 0, 16}}).has_value());
}

TEST_CASE("above its limit the engine refuses a transfer at once and serves those it took") {
  engine_options options;
  options.region_bytes = 4096;
  options.owner.value = 1;
  options.max_queued_transfers = 8;
  const auto a = start_engine(options);
  const auto b = start_engine(4096, 2);
  // A completion that waits keeps the engine's thread, so that what follows stays queued.
  std::promise<void> entered, leave;
  a->put(b->descriptor(), {{0, 0, 1}}, never_late, [&](const auto&) {
    entered.set_value();
    leave.get_future().wait();
  });
  entered.get_future().wait();
  completions done;
  for (std::size_t i = 0; i < 8; ++i) a->put(b->descriptor(), {{0, 0, 16}}, never_late, done.on(i));
  CHECK(done.count() == 0);
  CHECK(a->counters().queued == 8);
  a->get(b->descriptor(), {{0, 0, 16}}, never_late, done.on(8));
  CHECK(done.times(8) == 1);
  CHECK(done.error(8) == errc::too_much_in_flight);
  leave.set_value();
  REQUIRE(done.wait_for(9));
  for (std::size_t i = 0; i < 8; ++i) CHECK(done.ok(i));
  CHECK(run_put(*a, b->descriptor(), {{0, 0, 16}}).has_value());
}

TEST_CASE("transfers above the limit of bytes in flight wait and are all served") {
  for (const route& by : all_routes) {
    engine_options options;
    options.region_bytes = 1 << 20;
    options.owner.value = 1;
    options.max_in_flight_bytes = 10'000;
    options.transports = by.transports;
    options.access = by.access;
    const auto a = start_engine(options);
    const auto b = start_engine(1 << 20, 2, by);
    fill_random(a->region(), 8);
    completions done;
    constexpr std::size_t count = 100;
    // Some fit together, some only alone, some exceed the limit by themselves.
    for (std::size_t i = 0; i < count; ++i) {
      a->put(b->descriptor(),
             {{i * 10'000, i * 10'000,
               i % 3 == 0   ? 100u
               : i % 3 == 1 ? 10'000u
                            : 20'000u}},
             never_late, done.on(i));
    }
    REQUIRE(done.wait_for(count));
    for (std::size_t i = 0; i < count; ++i) CHECK(done.ok(i));
    CHECK(std::equal(a->region().begin() + 980'000, a->region().begin() + 990'000,
                     b->region().begin() + 980'000));
  }
}

TEST_CASE("a deadline that has passed is kept without a byte moved") {
  const auto a = start_engine(4096, 1);
  const auto b = start_engine(4096, 2);
  fill_random(a->region(), 9);
  for (const core::duration deadline : {core::duration::zero(), core::duration(-1s), core::duration::min()}) {
    const auto late = run_put(*a, b->descriptor(), {{0, 0, 4096}}, deadline);
    REQUIRE(!late.has_value());
    CHECK(late.error().code == errc::deadline_exceeded);
  }
  CHECK(std::ranges::all_of(b->region(), [](std::byte byte) { return byte == std::byte{0}; }));
  CHECK(run_put(*a, b->descriptor(), {{0, 0, 4096}}, core::duration::max()).has_value());
}

TEST_CASE("the region of an engine that has ended is refused, not written to") {
  for (const route& by : all_routes) {
    CAPTURE(name_of(by));
    const auto a = start_engine(1 << 16, 1, by);
    auto b = start_engine(1 << 16, 2, by);
    const auto old = b->descriptor();
    REQUIRE(run_put(*a, old, {{0, 0, 100}}).has_value());  // a has b's memory mapped from now on
    b.reset();
    b = start_engine(1 << 16, 3, by);
    // Messages over shared memory to a dead engine are never refused by anyone; the deadline ends them.
    const bool is_silent = by.access == access_path::messages;
    const auto expected = is_silent ? errc::deadline_exceeded : errc::peer_unreachable;
    const core::duration deadline = is_silent ? 100ms : never_late;
    const auto refused = run_get(*a, old, {{0, 0, 100}}, deadline);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().code == expected);
    CHECK(run_get(*a, b->descriptor(), {{0, 0, 100}}).has_value());
    // Refused by an engine that never met the old one too.
    const auto c = start_engine(1 << 16, 4, by);
    const auto unmet = run_put(*c, old, {{0, 0, 100}});
    REQUIRE(!unmet.has_value());
    CHECK(unmet.error().code == errc::peer_unreachable);
  }
}

TEST_CASE("a forgotten peer is met anew") {
  const auto a = start_engine(1 << 16, 1);
  const auto b = start_engine(1 << 16, 2);
  for (int round = 0; round < 20; ++round) {
    completions done;
    a->put(b->descriptor(), {{0, 0, 1000}}, never_late, done.on(0));
    a->forget(b->descriptor());
    a->forget(b->descriptor());
    a->put(b->descriptor(), {{0, 0, 1000}}, never_late, done.on(1));
    REQUIRE(done.wait_for(2));
    const bool first_was_forgotten = done.error(0) == errc::peer_unreachable;
    CHECK((first_was_forgotten || done.ok(0)));
    CHECK(done.ok(1));
  }
}

TEST_CASE("an engine that ends completes what is open") {
  constexpr std::size_t count = 50;
  completions done;
  const auto b = start_engine(1 << 20, 2, tcp);
  auto a = start_engine(1 << 20, 1, tcp);
  std::promise<void> entered, leave;
  a->put(b->descriptor(), {{0, 0, 1}}, never_late, [&](const auto&) {
    entered.set_value();
    leave.get_future().wait();
  });
  entered.get_future().wait();
  for (std::size_t i = 0; i < count; ++i) a->put(b->descriptor(), {{0, 0, 1 << 20}}, never_late, done.on(i));
  std::thread ending([&] { a.reset(); });
  leave.set_value();
  ending.join();
  CHECK(done.count() == count);
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(done.times(i) == 1);
    CHECK((done.ok(i) || done.error(i) == errc::stopped));
  }
}

TEST_CASE("a completion may ask for the next transfer") {
  const auto a = start_engine(1 << 16, 1);
  const auto b = start_engine(1 << 16, 2);
  completions done;
  std::function<void(int)> next = [&](int left) {
    a->put(b->descriptor(), {{0, 0, 64}}, never_late, [&, left](result<transfer_report> outcome) {
      if (left > 0) next(left - 1);
      done.record(static_cast<std::size_t>(left), std::move(outcome));
    });
  };
  next(99);
  REQUIRE(done.wait_for(100));
  for (std::size_t i = 0; i < 100; ++i) CHECK(done.ok(i));
}

TEST_CASE("more peers than endpoints are kept are still served") {
  engine_options options;
  options.region_bytes = 4096;
  options.owner.value = 1;
  options.max_cached_peers = 2;
  const auto a = start_engine(options);
  std::vector<std::unique_ptr<transfer_engine>> peers;
  for (std::uint64_t i = 0; i < 6; ++i) {
    peers.push_back(start_engine(4096, 100 + i));
    std::ranges::fill(peers.back()->region(), static_cast<std::byte>(i));
  }
  for (int round = 0; round < 5; ++round) {
    for (std::uint64_t i = 0; i < peers.size(); ++i) {
      const auto got = run_get(*a, peers[i]->descriptor(), {{0, 0, 128}});
      REQUIRE_MESSAGE(got.has_value(), message_of(got));
      CHECK(a->region()[127] == static_cast<std::byte>(i));
    }
  }
}

TEST_CASE("a peer that restarts again and again is served each time") {
  engine_options options;
  options.region_bytes = 4096;
  options.owner.value = 1;
  options.max_cached_peers = 4;
  const auto a = start_engine(options);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto b = start_engine(4096, 100 + i);
    const auto sent = run_put(*a, b->descriptor(), {{0, 0, 128}});
    REQUIRE_MESSAGE(sent.has_value(), message_of(sent));
  }
}

TEST_CASE("a descriptor that is sealed but not true moves no byte") {
  for (const route& by : all_routes) {
    CAPTURE(name_of(by));
    const auto a = start_engine(1 << 16, 1, by);
    const auto b = start_engine(1 << 16, 2, by);
    const auto& real = b->descriptor();
    const auto keys = open_descriptor(real).value();
    auto other_nonce = keys;
    other_nonce.nonce += 2;
    const region_descriptor lies[] = {
        seal_descriptor({3}, real.base_address, real.length_bytes, keys),  // another incarnation
        seal_descriptor(real.owner, real.base_address, real.length_bytes,
                        other_nonce),  // another life of the same
        seal_descriptor(real.owner, real.base_address, real.length_bytes + 4096, keys),  // longer than it is
    };
    fill_random(a->region(), 12);
    const std::vector<copy_range> behind_the_end{{0, (1 << 16) - 8, 16}};
    for (const auto& lie : lies) {
      const auto sent = run_put(
          *a, lie,
          lie.length_bytes > real.length_bytes ? behind_the_end : std::vector<copy_range>{{0, 0, 64}});
      REQUIRE(!sent.has_value());
      CHECK((sent.error().code == errc::peer_unreachable || sent.error().code == errc::transfer_failed));
    }
    CHECK(std::ranges::all_of(b->region(), [](std::byte byte) { return byte == std::byte{0}; }));
    CHECK(run_put(*a, real, {{0, 0, 64}}).has_value());
  }
}

TEST_CASE("engines that are told one network device meet on it, over TCP too") {
  engine_options options;
  options.region_bytes = 1 << 16;
  options.transports = "tcp";
  options.network_devices = "lo";
  options.owner.value = 1;
  const auto a = start_engine(options);
  options.owner.value = 2;
  const auto b = start_engine(options);
  fill_random(a->region(), 5);
  CHECK(run_put(*a, b->descriptor(), {{0, 0, a->region().size()}}).has_value());
  CHECK(same_bytes(a->region(), b->region()));
  options.network_devices = "no_such_device";
  CHECK(!transfer_engine::start(options).has_value());
}

TEST_CASE("an engine that cannot be set up says why") {
  engine_options options;
  const auto none = transfer_engine::start(options);
  REQUIRE(!none.has_value());
  CHECK(none.error().code == errc::setup_failed);
  options.region_bytes = std::numeric_limits<std::size_t>::max();
  CHECK(!transfer_engine::start(options).has_value());
  options.region_bytes = 4096;
  options.transports = "no_such_transport";
  const auto unknown = transfer_engine::start(options);
  REQUIRE(!unknown.has_value());
  CHECK(unknown.error().message.find("no_such_transport") != std::string::npos);
}

}  // namespace
}  // namespace yolk::transport
