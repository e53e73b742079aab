#include "actors/supervisor/lease.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace yolk::actors {

namespace {

class file_lease final : public lease {
 public:
  file_lease(std::string path, int file) : path_(std::move(path)), file_(file) {}
  ~file_lease() override { ::close(file_); }
  file_lease(const file_lease&) = delete;
  file_lease& operator=(const file_lease&) = delete;

  bool try_acquire() override {
    held_ = held_ || ::flock(file_, LOCK_EX | LOCK_NB) == 0;
    return held_;
  }
  [[nodiscard]] bool holds() const override { return held_; }
  [[nodiscard]] std::string description() const override { return "the lease " + path_; }

 private:
  std::string path_;
  int file_;
  bool held_ = false;
};

}  // namespace

core::result<std::shared_ptr<lease>, lease_errc> make_file_lease(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return core::failure<lease_errc>{lease_errc::unusable, path + ": " + std::strerror(errno)};
  return std::shared_ptr<lease>(std::make_shared<file_lease>(path, file));
}

}  // namespace yolk::actors
