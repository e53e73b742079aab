#include "gpu/host/thread_team.hpp"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/host/host_platform.hpp"

using namespace yolk::gpu::host;

namespace {
const auto never = [] { return false; };
}

TEST_CASE("every piece runs exactly once, job after job") {
  for (const unsigned threads : {1u, 2u, 5u}) {
    CAPTURE(threads);
    thread_team team(threads);
    CHECK(team.thread_count() == threads);
    for (std::uint32_t job = 0; job < 2000; ++job) {
      const std::uint32_t count = job % 37;
      std::vector<std::atomic<int>> runs(count);
      const auto next = team.run(
          0, count, [&](std::uint32_t piece, unsigned) { ++runs[piece]; }, never);
      REQUIRE(next == count);
      for (const auto& run : runs) REQUIRE(run == 1);
    }
  }
}

TEST_CASE("a helper that is late for a short job takes no piece of the longer one that follows") {
  // Tiny pieces, so that the caller publishes the next job while helpers still look for pieces of the last. A
  // piece too many also leaves the caller waiting for ever.
  for (const unsigned threads : {2u, 4u}) {
    CAPTURE(threads);
    thread_team team(threads);
    std::atomic<std::uint64_t> ran = 0;
    std::uint64_t wanted = 0;
    const auto work = [&](std::uint32_t, unsigned) { ran.fetch_add(1, std::memory_order_relaxed); };
    for (std::uint32_t job = 0; job < 200000; ++job) {
      const std::uint32_t count = job % 2 == 0 ? 2 : 12;
      team.run(0, count, work, never);
      wanted += count;
      REQUIRE(ran == wanted);
    }
  }
}

TEST_CASE("no two pieces at a time share a thread's number") {
  thread_team team(4);
  std::vector<std::atomic<int>> busy(4);
  std::atomic<int> clashes = 0;
  for (int job = 0; job < 200; ++job) {
    team.run(
        0, 64,
        [&](std::uint32_t, unsigned thread) {
          if (++busy[thread] != 1) ++clashes;
          --busy[thread];
        },
        never);
  }
  CHECK(clashes == 0);
}

TEST_CASE("after a stop no piece begins, those begun have ended, and the rest can be run later") {
  for (const unsigned threads : {1u, 3u}) {
    thread_team team(threads);
    constexpr std::uint32_t count = 500;
    std::vector<std::atomic<int>> runs(count);
    std::uint32_t next = 0;
    int rounds = 0;
    while (next < count) {
      int left = 5;
      next = team.run(
          next, count, [&](std::uint32_t piece, unsigned) { ++runs[piece]; }, [&] { return left-- == 0; });
      ++rounds;
      for (std::uint32_t piece = 0; piece < count; ++piece) REQUIRE(runs[piece] == (piece < next ? 1 : 0));
    }
    CHECK(rounds >= 1);
  }
}

TEST_CASE("a stop from the start runs nothing") {
  thread_team team(2);
  const auto next = team.run(
      3, 9, [](std::uint32_t, unsigned) {}, [] { return true; });
  CHECK(next >= 3);
  CHECK(next <= 9);
  thread_team alone(1);
  int runs = 0;
  CHECK(alone.run(
            3, 9, [&](std::uint32_t, unsigned) { ++runs; }, [] { return true; }) == 3);
  CHECK(runs == 0);
}

namespace {

/// As /proc has it: R runs or would, S sleeps.
char thread_state(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(stat, line);
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string::npos ? '?' : line.at(name_end + 2);
}

void wait_until_asleep(pid_t thread) {
  while (thread_state(thread) != 'S') std::this_thread::yield();
}

}  // namespace

TEST_CASE("whoever waits falls asleep: the caller for a long piece, a helper for the next job") {
  // Polled without a time limit of its own: a thread that spins for ever lets the test run into ctest's.
  thread_team team(2);
  const pid_t caller = gettid();
  std::atomic<pid_t> helper = 0;
  team.run(
      0, 2,
      [&](std::uint32_t, unsigned thread) {
        if (thread == 0) {
          while (helper == 0) std::this_thread::yield();
        } else {
          helper = gettid();
          wait_until_asleep(caller);
        }
      },
      never);
  wait_until_asleep(helper);
  std::atomic<int> runs = 0;
  team.run(
      0, 8, [&](std::uint32_t, unsigned) { ++runs; }, never);
  CHECK(runs == 8);
}

TEST_CASE("a platform refuses an absurd thread count and a negative share") {
  CHECK(!make_host_platform({.thread_count = 100000}));
  CHECK(!make_host_platform({.thread_count = 1, .prefill_share = -1.0}));
  const auto platform = *make_host_platform({.thread_count = 2});
  CHECK(platform->kind() == "host");
  CHECK(platform->description().find("2 threads") != std::string::npos);
  CHECK(!platform->numerics().empty());
}
