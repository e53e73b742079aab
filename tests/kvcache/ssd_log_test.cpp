#include "kvcache/ssd_log.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "tests/kvcache/held_backend.hpp"
#include "tests/kvcache/ssd_fixture.hpp"

using namespace yolk;
using namespace yolk::kvcache;
using namespace yolk::tests;

namespace {

constexpr std::size_t record_bytes = 448;  // 192 of head, 256 of payload
constexpr std::uint64_t file_of(std::uint64_t records) {
  return 4096 + records * record_bytes;
}

ssd_log_options options_of(const std::filesystem::path& folder) {
  return {.folder = folder,
          .byte_limit = 1 << 20,
          .layout = small_layout,
          .owner = test_owner,
          .incarnation = {1}};
}

std::string error_of(const ssd_log_options& options) {
  const auto opened = ssd_log::open(options, make_thread_backend(1));
  return opened ? std::string() : opened.error().message;
}

}  // namespace

TEST_CASE("what is saved is read back, now and after a restart, through each backend") {
  for (const auto kind : {io_kind::uring, io_kind::threads}) {
    const temporary_folder folder;
    {
      test_log first(folder.path(), {}, kind);
      CAPTURE(first.log->backend_name());
      CHECK(first.save_chain("abcd") == 4);
      CHECK(first.save("abx"));
      CHECK(first.read_right("abcd") == 4);
      CHECK(first.log->record_bytes() == record_bytes);
    }
    test_log second(folder.path(), {.incarnation = 2}, kind);
    CHECK(second.log->counters().restored_blocks == 5);
    CHECK(second.read_right("abcd") == 4);
    CHECK(second.read_right("abx") == 3);
    CHECK(second.save_chain("abcde") == 1);  // the log goes on
    CHECK(second.read_right("abcde") == 5);
    CHECK(second.log->audit() == "");
    CHECK(folder.block_files().size() == 1);
  }
}

TEST_CASE("a prompt is matched from where DRAM ends, and proved from its beginning") {
  const temporary_folder folder;
  test_log test(folder.path(), {});
  test.save_chain("abcd");
  CHECK(test.found("abcd") == 4);
  CHECK(test.found("abcd", 3) == 1);
  CHECK(test.found("abcd", 4) == 0);
  CHECK(test.found("abcx") == 3);
  CHECK(test.found("xbcd") == 0);
  CHECK(test.found("xbcd", 1) == 0);
  CHECK(test.log->match(test_root, prompt_of("abcd"), 0, 4 * 3 + 3).size() == 3);
  const auto other = make_root({.tenant = "other", .model = "m", .block_tokens = 4});
  CHECK(test.found("abcd", 0, other) == 0);
  CHECK(test.found("abcd", 1, other) == 0);
}

TEST_CASE("a block without its beginning, or with a header that does not fit, is not saved") {
  const temporary_folder folder;
  test_log test(folder.path(), {});
  CHECK_FALSE(test.save("ab"));
  CHECK(test.save("a"));
  CHECK_FALSE(test.save("a"));  // is there
  auto header = header_of("ab");
  const auto bytes = payload_of(header.key);
  const auto refused = [&](const block_header& bad) {
    return test.log->save(bad, bytes, [](bool) {}) == ssd_log::save_outcome::dropped;
  };
  auto bad = header;
  bad.first_position = 8;
  CHECK(refused(bad));
  bad = header;
  bad.tokens[0] = 9;
  CHECK(refused(bad));
  bad = header;
  bad.layer_checksums.pop_back();
  CHECK(refused(bad));
  CHECK(test.log->counters().dropped_saves == 4);
  CHECK(test.save("ab"));
  CHECK(test.log->audit() == "");
}

TEST_CASE("the byte limit holds at every step, and the oldest blocks go first") {
  const temporary_folder folder;
  const test_log::shape shape{.byte_limit = 4 * file_of(3) + 100, .file_bytes = file_of(3) + 7};
  test_log test(folder.path(), shape);
  std::size_t events = 0;
  test.log->set_listener(
      [&](const cache_event& event) { events += event.what == cache_event::kind::stored ? 1 : -1; });
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    CHECK(test.save(std::string(1, letter)));
    CHECK(test.log->used_bytes() <= shape.byte_limit);
    CHECK(test.log->audit() == "");
    CHECK(events == test.log->stored_count());
  }
  CHECK(test.log->stored_count() >= 9);
  CHECK(test.found("z") == 1);
  CHECK(test.found("a") == 0);
  CHECK(test.log->counters().reclaimed_blocks == 26 - test.log->stored_count());
  test.log.reset();  // the names of dropped files are gone by now
  CHECK(folder.block_bytes() <= shape.byte_limit);

  auto smaller = shape;
  smaller.byte_limit = 2 * file_of(3) + 14;
  const test_log again(folder.path(), smaller);
  CHECK(again.found("z") == 1);
  CHECK(again.log->used_bytes() <= smaller.byte_limit);
}

TEST_CASE("a chain whose beginning was reclaimed is found again behind blocks that DRAM has") {
  const temporary_folder folder;
  test_log test(folder.path(), {.byte_limit = 2 * file_of(3), .file_bytes = file_of(3)});
  CHECK(test.save_chain("abcdefg") == 7);  // "abc" lay in the file that went
  CHECK(test.log->counters().reclaimed_blocks == 3);
  CHECK(test.found("abcdefg") == 0);
  CHECK(test.found("abcdefg", 3) == 4);
  CHECK(test.found("xbcdefg", 3) == 0);
  CHECK(test.log->audit() == "");
}

TEST_CASE("blocks whose beginning is not on disk any more are not guessed after a restart") {
  const temporary_folder folder;
  const test_log::shape shape{.byte_limit = 2 * file_of(3), .file_bytes = file_of(3)};
  test_log(folder.path(), shape).save_chain("abcdefg");
  auto later = shape;
  later.incarnation = 2;
  test_log test(folder.path(), later);
  CHECK(test.log->stored_count() == 0);
  CHECK(test.save_chain("abcd") == 4);
  CHECK(test.read_right("abcd") == 4);
  CHECK(test.log->audit() == "");
}

TEST_CASE("files of another model, layout or of nobody are not served, and are the first to go") {
  const temporary_folder folder;
  test_log(folder.path(), {.owner = make_root({.model = "another", .block_tokens = 4})}).save_chain("abc");
  const auto theirs = folder.block_files().front();
  test_log test(folder.path(), {.byte_limit = 3 * file_of(3), .file_bytes = file_of(3)});
  CHECK(test.found("abc") == 0);
  CHECK(test.log->used_bytes() == std::filesystem::file_size(theirs));
  CHECK(test.save_chain("abcdef") == 6);
  CHECK(std::filesystem::exists(theirs));
  CHECK(test.save_chain("abcdefgh") == 2);
  CHECK(test.read_right("abcdefgh") == 8);
  CHECK(test.log->counters().reclaimed_files == 1);
  test.log.reset();
  CHECK_FALSE(std::filesystem::exists(theirs));
}

TEST_CASE("saves beyond the queue's limit are dropped and counted") {
  const temporary_folder folder;
  held_backend* held = nullptr;
  test_log test(folder.path(), {.max_saving_bytes = 2 * record_bytes}, make_held_backend(held));
  std::vector<std::vector<std::byte>> bytes;
  std::size_t ended = 0;
  const auto save = [&](const std::string& blocks) {
    const auto header = header_of(blocks);
    bytes.push_back(payload_of(header.key));
    return test.log->save(header, bytes.back(), [&](bool) { ++ended; });
  };
  CHECK(save("a") == ssd_log::save_outcome::started);
  CHECK(save("ab") == ssd_log::save_outcome::started);
  CHECK(save("a") == ssd_log::save_outcome::present);
  CHECK(save("abc") == ssd_log::save_outcome::dropped);
  CHECK(test.log->counters().dropped_saves == 1);
  CHECK(test.found("a") == 0);  // not before it is written
  while (!test.log->flush(std::chrono::milliseconds(1))) held->complete_all();
  test.owner.run_until([&] { return ended == 2; });
  CHECK(test.found("ab") == 2);
  CHECK(save("abc") == ssd_log::save_outcome::started);
  held->complete_all();
}

TEST_CASE("a disk that fails costs the blocks that it failed for, and no others") {
  for (const int error : {ENOSPC, EIO, EFBIG}) {
    CAPTURE(error);
    const temporary_folder folder;
    bool failing = false;
    test_log test(folder.path(), {.byte_limit = 3 * file_of(4), .file_bytes = file_of(4)},
                  std::make_unique<faulty_backend>(make_thread_backend(2), [&](const io_request& request) {
                    return failing && request.what == io_request::kind::write
                               ? std::optional<std::int64_t>(-error)
                               : std::nullopt;
                  }));
    CHECK(test.save_chain("abc") == 3);
    failing = true;
    for (int i = 0; i < 50; ++i) CHECK_FALSE(test.save("abcd"));
    CHECK(test.log->counters().failed_saves == 50);
    CHECK(test.log->counters().reclaimed_files == 0);
    CHECK(test.read_right("abcd") == 3);
    failing = false;
    CHECK(test.save_chain("abcdefgh") == 5);
    CHECK(test.read_right("abcdefgh") == 8);
    CHECK(folder.block_files().size() == 2);
    failing = true;
    for (int i = 0; i < 5; ++i) CHECK_FALSE(test.save("x"));
    // Where the disk is full, one file makes room; nothing is dropped for other reasons.
    CHECK(test.log->counters().reclaimed_files == (error == ENOSPC ? 1 : 0));
    CHECK(test.log->audit() == "");
  }
}

TEST_CASE("a block that the disk does not give is a miss, and is forgotten") {
  const temporary_folder folder;
  bool failing = false;
  test_log test(folder.path(), {},
                std::make_unique<faulty_backend>(make_thread_backend(2), [&](const io_request& request) {
                  return failing && request.what == io_request::kind::read ? std::optional<std::int64_t>(-EIO)
                                                                           : std::nullopt;
                }));
  test.save_chain("abc");
  failing = true;
  CHECK_FALSE(test.read(header_of("ab").key).has_value());
  CHECK(test.log->counters().failed_reads == 1);
  CHECK(test.found("abc") == 1);
  CHECK(test.found("abc", 2) == 1);
  failing = false;
  CHECK(test.save("ab"));
  CHECK(test.read_right("abc") == 3);
  CHECK(test.log->audit() == "");
}

TEST_CASE("files that vanish are misses after a restart, and cost nothing before") {
  const temporary_folder folder;
  const test_log::shape shape{.byte_limit = 4 * file_of(2), .file_bytes = file_of(2)};
  {
    test_log test(folder.path(), shape);
    test.save_chain("abcde");
    std::filesystem::remove(folder.block_files().at(1));
    CHECK(test.read_right("abcde") == 5);
    std::filesystem::remove_all(folder.path());
    CHECK(test.save("abcdef"));  // into the file that is open
    CHECK_FALSE(test.save("abcdefg"));
    CHECK_FALSE(test.save("abcdefg"));
    CHECK(test.log->counters().failed_saves == 2);
    std::filesystem::create_directory(folder.path());
    CHECK(test.save("abcdefg"));
    CHECK(test.log->audit() == "");
  }
  test_log(folder.path(), shape).save_chain("abcde");
  std::filesystem::remove(folder.block_files().at(1));
  test_log again(folder.path(), shape);
  CHECK(again.log->audit() == "");
}

TEST_CASE("a folder that cannot be used is a clear error at the start") {
  const temporary_folder folder;
  const auto file = folder.path() / "file";
  test_log holder(folder.path() / "log", {});
  CHECK(error_of(options_of(folder.path() / "log")).find("in use by another process") != std::string::npos);
  std::filesystem::copy_file(folder.path() / "log" / "lock", file);
  CHECK(error_of(options_of(file)).find(file.string()) != std::string::npos);
  CHECK(error_of(options_of(file / "under")).find("Not a directory") != std::string::npos);
  auto options = options_of(folder.path() / "small");
  options.byte_limit = 9000;
  CHECK(error_of(options).find("9000 bytes is less than two files") != std::string::npos);
}

TEST_CASE("files and their folder are their user's alone") {
  const temporary_folder folder;
  test_log test(folder.path() / "log", {});
  test.save("a");
  for (const auto& path : {folder.path() / "log", folder.path() / "log" / "lock",
                           folder.path() / "log" / "blocks-0000000000000001.kv"}) {
    CAPTURE(path.string());
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 077) == 0);
  }
}
