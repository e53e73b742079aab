#include "kvcache/log_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>

namespace yolk::kvcache {

namespace {

constexpr const char* name_pattern = "blocks-%016llx.kv";
constexpr std::size_t name_length = 26;

core::failure<errc> failed(const std::string& what, const std::filesystem::path& path, int error) {
  return {errc::storage_failed, what + " " + path.string() + ": " + std::strerror(error)};
}

std::optional<std::uint64_t> number_in(const std::string& name) {
  unsigned long long number = 0;
  char again[name_length + 1];
  if (name.size() != name_length || std::sscanf(name.c_str(), name_pattern, &number) != 1)
    return std::nullopt;
  std::snprintf(again, sizeof again, name_pattern, number);
  return name == again ? std::optional<std::uint64_t>(number) : std::nullopt;
}

bool read_whole(int file, std::span<std::byte> into, std::uint64_t offset) {
  while (!into.empty()) {
    const ssize_t moved = pread(file, into.data(), into.size(), static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    offset += static_cast<std::uint64_t>(moved);
    into = into.subspan(static_cast<std::size_t>(moved));
  }
  return true;
}

std::uint64_t size_of(int file) {
  struct stat status {};
  return fstat(file, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

/// The intact records of a file of ours. A record whose head is damaged is left out, those after it are not:
/// all have the same size.
void scan_records(found_file& found, const record_layout& layout, std::vector<found_record>& records) {
  const int file = found.file->descriptor();
  const std::uint64_t size = size_of(file);
  const std::uint64_t whole = size < record_layout::file_head_bytes
                                  ? 0
                                  : (size - record_layout::file_head_bytes) / layout.record_bytes;
  std::vector<std::byte> bytes(layout.head_bytes);
  for (std::uint32_t record = 0; record < whole; ++record) {
    const record_place place{found.file->head().number, record};
    if (!read_whole(file, bytes, layout.offset(record))) continue;
    auto head = decode_record_head(bytes, place, layout);
    if (!head) continue;
    records.push_back({std::move(*head), place});
    found.record_count = record + 1;
  }
  found.bytes = layout.offset(found.record_count);
  if (found.bytes < size) found.file->truncate(found.bytes);
}

}  // namespace

log_file::~log_file() {
  if (descriptor_ >= 0) close(descriptor_);
}

result<core::void_t> log_file::open() {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0) return failed("opening", path_, errno);
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);  // a record is one read: nothing to read ahead
  return core::void_t{};
}

result<core::void_t> log_file::create() {
  if (descriptor_ >= 0) return core::void_t{};
  const int created = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (created < 0) return failed("creating", path_, errno);
  std::vector<std::byte> bytes(record_layout::file_head_bytes);
  encode(head_, bytes);
  const ssize_t written = pwrite(created, bytes.data(), bytes.size(), 0);
  if (written != static_cast<ssize_t>(bytes.size())) {
    const int error = written < 0 ? errno : ENOSPC;
    close(created);
    unlink(path_.c_str());
    return failed("writing", path_, error);
  }
  posix_fadvise(created, 0, 0, POSIX_FADV_RANDOM);
  descriptor_ = created;
  return core::void_t{};
}

void log_file::remove() const {
  unlink(path_.c_str());
}

void log_file::truncate(std::uint64_t bytes) const {
  // If it fails, the tail stays: no record is seen in it, the next ones are written over it.
  [[maybe_unused]] const int ignored = ftruncate(descriptor_, static_cast<off_t>(bytes));
}

result<std::unique_ptr<log_folder>> log_folder::open(const std::filesystem::path& path) {
  std::error_code error;
  const bool created = std::filesystem::create_directories(path, error);
  if (error) return failed("creating", path, error.value());
  if (created) std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  const auto lock_path = path / "lock";
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (lock < 0) return failed("opening", lock_path, errno);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    close(lock);
    if (why == EWOULDBLOCK)
      return core::failure<errc>{errc::storage_failed, path.string() + " is in use by another process"};
    return failed("locking", lock_path, why);
  }
  return std::unique_ptr<log_folder>(new log_folder(path, lock));
}

log_folder::~log_folder() {
  close(lock_);
}

std::filesystem::path log_folder::path_of(std::uint64_t number) const {
  char name[name_length + 1];
  std::snprintf(name, sizeof name, name_pattern, static_cast<unsigned long long>(number));
  return path_ / name;
}

result<log_folder::contents> log_folder::scan(block_key owner, const record_layout& layout) const {
  std::vector<std::uint64_t> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path_, error), end; !error && at != end; at.increment(error))
    if (const auto number = number_in(at->path().filename().string())) numbers.push_back(*number);
  if (error) return failed("reading", path_, error.value());
  std::ranges::sort(numbers);

  contents all;
  for (const std::uint64_t number : numbers) {
    found_file found{
        .file = std::make_shared<log_file>(
            path_of(number), log_file_head{.number = number, .owner = owner, .layout = layout.block})};
    if (auto opened = found.file->open(); !opened) return opened.error();
    std::vector<std::byte> bytes(record_layout::file_head_bytes);
    const bool whole = read_whole(found.file->descriptor(), bytes, 0);
    const auto head = whole ? decode_file_head(bytes) : std::nullopt;
    found.ours = head && head->number == number && head->owner == owner && head->layout == layout.block;
    if (found.ours)
      scan_records(found, layout, all.records);
    else
      found.bytes = size_of(found.file->descriptor());
    all.files.push_back(std::move(found));
  }
  return all;
}

}  // namespace yolk::kvcache
