#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

namespace yolk::tests {

/// A folder of the test's own, for an SSD log; gone with it.
class temporary_folder {
 public:
  temporary_folder() {
    auto pattern = (std::filesystem::temp_directory_path() / "yolk-ssd-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::vector<std::filesystem::path> block_files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      if (entry.path().extension() == ".kv") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }
  [[nodiscard]] std::uint64_t block_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& file : block_files()) bytes += std::filesystem::file_size(file);
    return bytes;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace yolk::tests
