#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include "tests/transport/descriptor_text.hpp"
#include "tests/transport/support.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace yolk::transport::testing {

/// A peer_program in a process of its own. Killed and reaped at the end of its life, stopped or not.
class peer_process {
 public:
  struct options {
    std::size_t region_bytes = 0;
    std::uint64_t incarnation = 0;
    std::string transports = engine_options{}.transports;
    unsigned fill = 0;
  };

  explicit peer_process(const options& with) {
    std::array<int, 2> to_peer{}, from_peer{};
    REQUIRE(::pipe2(to_peer.data(), O_CLOEXEC) == 0);
    REQUIRE(::pipe2(from_peer.data(), O_CLOEXEC) == 0);
    std::array<std::string, 5> words{YOLK_TRANSPORT_PEER, std::to_string(with.region_bytes),
                                     std::to_string(with.incarnation), with.transports,
                                     std::to_string(with.fill)};
    std::array<char*, 6> arguments{};
    for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to_peer[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, from_peer[1], STDOUT_FILENO);
    const int spawned = ::posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(to_peer[0]);
    ::close(from_peer[1]);
    stdin_fd_ = to_peer[1];
    REQUIRE(spawned == 0);
    std::string line;
    char byte = 0;
    while (::read(from_peer[0], &byte, 1) == 1 && byte != '\n') line += byte;
    ::close(from_peer[0]);
    descriptor_ = from_text(line);
    REQUIRE_MESSAGE(descriptor_.length_bytes == with.region_bytes, "the peer did not start");
  }
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;
  ~peer_process() {
    kill();
    ::close(stdin_fd_);
  }

  [[nodiscard]] const region_descriptor& descriptor() const { return descriptor_; }
  /// SIGSTOP, and until the kernel says that it has stopped.
  void stop() const {
    REQUIRE(::kill(pid_, SIGSTOP) == 0);
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, WUNTRACED) == pid_);
    REQUIRE(WIFSTOPPED(status));
  }
  void resume() const { REQUIRE(::kill(pid_, SIGCONT) == 0); }
  /// SIGKILL, and until the kernel says that it is gone.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) == -1 && errno == EINTR) {
    }
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int stdin_fd_ = -1;
  region_descriptor descriptor_;
};

}  // namespace yolk::transport::testing
