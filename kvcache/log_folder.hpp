#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kvcache/errc.hpp"
#include "kvcache/log_record.hpp"

namespace yolk::kvcache {

/// One file of a log. Shared by all that read or write it; closed with the last of them, also when its name
/// is gone by then.
class log_file {
 public:
  log_file(std::filesystem::path path, const log_file_head& head) : path_(std::move(path)), head_(head) {}
  ~log_file();
  log_file(const log_file&) = delete;
  log_file& operator=(const log_file&) = delete;

  /// Opens what is there, for reading and appending.
  [[nodiscard]] result<core::void_t> open();
  /// Creates it with its head, unless it is open. Called on one thread; blocks on the file system.
  [[nodiscard]] result<core::void_t> create();
  void remove() const;  ///< its name; blocks
  /// Cuts what follows.
  void truncate(std::uint64_t bytes) const;
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] const log_file_head& head() const { return head_; }

 private:
  std::filesystem::path path_;
  log_file_head head_;
  int descriptor_ = -1;
};

/// What was found on disk of one file.
struct found_file {
  std::shared_ptr<log_file> file;  ///< open if `ours`
  bool ours = false;  ///< else of another model, layout or format, or damaged: only to be reclaimed
  std::uint32_t record_count = 0;  ///< up to the last intact head
  std::uint64_t bytes = 0;         ///< without the torn tail, which was cut
};

struct found_record {
  record_head head;
  record_place place;
};

/// A log's directory: private to its user (prompts can be told from KV), held by one process at a time.
class log_folder {
 public:
  /// Creates the folder if needed and takes its lock.
  static result<std::unique_ptr<log_folder>> open(const std::filesystem::path& path);
  ~log_folder();
  log_folder(const log_folder&) = delete;
  log_folder& operator=(const log_folder&) = delete;

  struct contents {
    std::vector<found_file> files;      ///< by number
    std::vector<found_record> records;  ///< whose heads are intact; payloads were not read
  };
  /// Reads all heads, cuts torn tails. Files that no log could have made are left alone.
  [[nodiscard]] result<contents> scan(block_key owner, const record_layout& layout) const;
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t number) const;

 private:
  log_folder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path path_;
  int lock_;
};

}  // namespace yolk::kvcache
