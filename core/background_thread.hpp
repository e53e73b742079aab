#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace yolk::core {

/// own_thread: the jobs have a thread. at_once: they run within post(), on the caller's thread; for virtual
/// time, where everything is one thread's.
enum class job_place : std::uint8_t { own_thread, at_once };

/// One thread that runs jobs in order and sleeps between them: what an actor hands its hashing and copying
/// to, so that no handler computes. Owned by the actor; post() from any thread. The destructor finishes the
/// job that runs, drops the rest (their effects are messages to an actor that is going away) and joins.
class background_thread {
 public:
  explicit background_thread(const std::string& name, job_place place = job_place::own_thread);
  ~background_thread();
  background_thread(const background_thread&) = delete;
  background_thread& operator=(const background_thread&) = delete;

  /// False when max_queued jobs wait already: the caller treats the work as refused.
  [[nodiscard]] bool post(std::function<void()> job);
  /// Finishes the job that runs, drops the rest, refuses all later ones. Idempotent; the owner's thread.
  void stop();

  static constexpr std::size_t max_queued = 4096;

 private:
  void run();

  job_place place_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace yolk::core
