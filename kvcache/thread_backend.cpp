#include <pthread.h>
#include <sys/uio.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/invariant.hpp"
#include "kvcache/io_backend.hpp"

namespace yolk::kvcache {

namespace {

std::int64_t move_bytes(const io_request& request) {
  std::array<iovec, 2> parts{};
  int count = 0;
  for (const auto& buffer : request.buffers)
    if (!buffer.empty()) parts[static_cast<std::size_t>(count++)] = {buffer.data(), buffer.size()};
  const auto offset = static_cast<off_t>(request.offset);
  const ssize_t moved = request.what == io_request::kind::read
                            ? preadv(request.file, parts.data(), count, offset)
                            : pwritev(request.file, parts.data(), count, offset);
  return moved < 0 ? -errno : moved;
}

class thread_backend final : public io_backend {
 public:
  explicit thread_backend(unsigned thread_count) {
    YOLK_INVARIANT(thread_count > 0, thread_count);
    for (unsigned i = 0; i < thread_count; ++i) {
      threads_.emplace_back([this] { run(); });
      pthread_setname_np(threads_.back().native_handle(), "ssd-io");
    }
  }

  ~thread_backend() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  void start(const io_request& request, done on_done) override {
    {
      const std::lock_guard lock(mutex_);
      YOLK_INVARIANT(!stopping_, request.offset);
      pending_.emplace_back(request, std::move(on_done));
    }
    wake_.notify_one();
  }

  [[nodiscard]] const char* name() const override { return "threads"; }

 private:
  void run() {
    for (;;) {
      std::pair<io_request, done> next;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
        if (pending_.empty()) return;
        next = std::move(pending_.front());
        pending_.pop_front();
      }
      next.second(move_bytes(next.first));
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::pair<io_request, done>> pending_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<io_backend> make_thread_backend(unsigned thread_count) {
  return std::make_unique<thread_backend>(thread_count);
}

}  // namespace yolk::kvcache
