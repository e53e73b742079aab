#include "core/background_thread.hpp"

#include <pthread.h>

#include <utility>

namespace yolk::core {

background_thread::background_thread(const std::string& name, job_place place) : place_(place) {
  if (place_ == job_place::at_once) return;
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

background_thread::~background_thread() {
  stop();
}

void background_thread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  if (!thread_.joinable()) return;
  wake_.notify_one();
  thread_.join();
}

bool background_thread::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || jobs_.size() >= max_queued) return false;
    if (place_ == job_place::own_thread) {
      jobs_.push_back(std::move(job));
      wake_.notify_one();
      return true;
    }
  }
  job();
  return true;
}

void background_thread::run() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace yolk::core
