// What a log finds after its process was killed, its file cut, or its bytes changed: less, but nothing wrong.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "tests/kvcache/ssd_fixture.hpp"

using namespace yolk;
using namespace yolk::kvcache;
using namespace yolk::tests;

namespace {

constexpr std::size_t record_bytes = 448;

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

/// A random prompt: few letters, so that prompts share their beginnings.
std::string random_blocks(core::random_source& random) {
  std::string blocks;
  for (auto length = 1 + random.below(6); length > 0; --length)
    blocks += static_cast<char>('a' + random.below(3));
  return blocks;
}

/// Saves for ever, and tells of each block that was saved.
[[noreturn]] void save_until_killed(const std::filesystem::path& folder, const test_log::shape& shape,
                                    std::uint64_t seed, int tell) {
  test_log test(folder, shape, seed % 2 == 0 ? io_kind::uring : io_kind::threads);
  core::random_source random(seed);
  for (;;) {
    const auto blocks = random_blocks(random);
    for (std::size_t end = 1; end <= blocks.size(); ++end) {
      const auto part = blocks.substr(0, end);
      if (!test.save(part)) continue;
      std::string line = part;
      line.resize(8, ' ');
      if (::write(tell, line.data(), line.size()) < 0) _exit(1);
    }
  }
}

}  // namespace

TEST_CASE("a process killed while it writes leaves nothing wrong, and nothing saved is lost") {
  const auto seed = std::random_device()();
  MESSAGE("seed " << seed);
  core::random_source random(seed);
  const temporary_folder folder;
  // Room for all different prompts: 3 + 9 + … + 729 blocks.
  const test_log::shape roomy{.byte_limit = std::uint64_t{2} << 20, .file_bytes = 4096 + 200 * record_bytes};
  const test_log::shape narrow{.byte_limit = 4 * (4096 + 10 * record_bytes),
                               .file_bytes = 4096 + 10 * record_bytes};
  std::vector<std::string> told;
  for (std::uint64_t round = 0; round < 60; ++round) {
    const bool keeps_all = round < 40;
    if (round == 40) told.clear();
    auto shape = keeps_all ? roomy : narrow;
    shape.incarnation = 1 + round;
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const auto child_seed = random();
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) save_until_killed(folder.path(), shape, child_seed, ends[1]);
    close(ends[1]);
    // Killed when it has told of so many blocks, in the middle of whatever it does then.
    char line[8];
    for (auto wanted = random.below(30); wanted > 0; --wanted) {
      if (keeps_all && told.size() > 900) break;
      REQUIRE(::read(ends[0], line, sizeof line) == sizeof line);
      told.emplace_back(line, sizeof line);
    }
    kill(child, SIGKILL);
    while (::read(ends[0], line, sizeof line) == sizeof line) told.emplace_back(line, sizeof line);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    close(ends[0]);

    test_log test(folder.path(), shape, io_kind::threads);
    CHECK(test.log->audit() == "");
    std::size_t read_back = 0;
    for (auto blocks : told) {
      blocks.resize(blocks.find_last_not_of(' ') + 1);
      const auto right = test.read_right(blocks);
      read_back += right;
      if (keeps_all) CHECK(right == blocks.size());
    }
    if (!keeps_all && !told.empty()) CHECK(test.log->used_bytes() <= shape.byte_limit);
    CHECK(test.log->counters().failed_checks == 0);
  }
}

TEST_CASE("a record that is cut at any byte is gone, those before it are not") {
  const temporary_folder folder;
  test_log(folder.path(), {}).save_chain("abc");
  const auto file = folder.block_files().front();
  const auto whole = bytes_of(file);
  REQUIRE(whole.size() == 4096 + 3 * record_bytes);
  for (std::size_t cut = 0; cut < record_bytes; ++cut) {
    write(file, whole.substr(0, 4096 + 2 * record_bytes + cut));
    test_log test(folder.path(), {.incarnation = 2});
    CHECK(test.log->stored_count() == 2);
    CHECK(test.read_right("abc") == 2);
    CHECK(std::filesystem::file_size(file) == 4096 + 2 * record_bytes);
    if (cut % 50 != 0) continue;
    CHECK(test.save_chain("abcd") == 2);
    CHECK(test.read_right("abcd") == 4);
  }
  for (const std::size_t cut : {0, 1, 63, 4095}) {
    write(file, whole.substr(0, cut));
    test_log test(folder.path(), {.incarnation = 2});
    CHECK(test.log->stored_count() == 0);
    CHECK(test.save_chain("abc") == 3);
    test.log.reset();
    for (const auto& each : folder.block_files()) std::filesystem::remove(each);
  }
}

TEST_CASE("a byte changed anywhere costs at most the blocks from there on") {
  const auto seed = std::random_device()();
  MESSAGE("seed " << seed);
  core::random_source random(seed);
  const temporary_folder folder;
  test_log(folder.path(), {}).save_chain("abc");
  const auto file = folder.block_files().front();
  const auto whole = bytes_of(file);
  // Of the file's head a byte in 64, of the records each.
  for (std::size_t at = 0; at < whole.size(); at += at < 4096 ? 64 : 1) {
    CAPTURE(at);
    auto spoilt = whole;
    spoilt[at] = static_cast<char>(spoilt[at] ^ (1 + random.below(255)));
    write(file, spoilt);
    test_log test(folder.path(), {.incarnation = 2});
    const std::size_t intact = at < 4096 ? 0 : (at - 4096) / record_bytes;
    const auto right = test.read_right("abc");
    // Padding is covered by the head's checksum too.
    CHECK(right == intact);
    CHECK(test.save_chain("abc") > 0);
    CHECK(test.read_right("abc") == 3);
    CHECK(test.log->audit() == "");
    test.log.reset();
    for (const auto& each : folder.block_files())
      if (each != file) std::filesystem::remove(each);
  }
}

TEST_CASE("a byte changed under a running log is found by the read") {
  const temporary_folder folder;
  test_log test(folder.path(), {});
  test.save_chain("abc");
  const auto file = folder.block_files().front();
  auto spoilt = bytes_of(file);
  spoilt[4096 + record_bytes + 200] = static_cast<char>(~spoilt[4096 + record_bytes + 200]);
  write(file, spoilt);
  CHECK(test.read_right("abc") == 1);
  CHECK(test.log->counters().failed_checks == 1);
  CHECK_FALSE(test.log->holds(header_of("ab").key));
  CHECK(test.save("ab"));
  CHECK(test.read_right("abc") == 3);
}

TEST_CASE("a file that has become too short under a running log is a miss") {
  const temporary_folder folder;
  test_log test(folder.path(), {});
  test.save_chain("abc");
  std::filesystem::resize_file(folder.block_files().front(), 4096 + record_bytes + 10);
  CHECK(test.read_right("abc") == 1);
  CHECK(test.log->counters().failed_reads == 1);
  CHECK(test.save_chain("abc") == 1);
}

TEST_CASE("a file size limit of the process is a full disk") {
  signal(SIGXFSZ, SIG_IGN);
  for (const auto kind : {io_kind::uring, io_kind::threads}) {
    const temporary_folder folder;
    test_log test(folder.path(), {}, kind);
    CHECK(test.save_chain("abc") == 3);
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit low{.rlim_cur = 4096 + 4 * record_bytes - 100, .rlim_max = before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
    CHECK(test.save_chain("abcde") == 0);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(test.log->counters().failed_saves == 1);
    CHECK(test.read_right("abcde") == 3);
    CHECK(test.save_chain("abcde") == 2);
    test.log.reset();
    test_log again(folder.path(), {.incarnation = 2}, kind);
    CHECK(again.read_right("abcde") == 5);
  }
  signal(SIGXFSZ, SIG_DFL);
}
