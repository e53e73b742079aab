#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "core/invariant.hpp"

namespace yolk::tests {

/// A trace of a test, as a file of its own.
class trace_file {
 public:
  explicit trace_file(const std::string& text) {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr ? folder : "/tmp") + "/yolk-trace-XXXXXX";
    const int file = ::mkstemp(path_.data());
    YOLK_INVARIANT(file >= 0, path_);
    ::close(file);
    std::ofstream(path_) << text;
  }
  ~trace_file() { ::unlink(path_.c_str()); }
  trace_file(const trace_file&) = delete;
  trace_file& operator=(const trace_file&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace yolk::tests
