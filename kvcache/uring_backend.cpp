#include <liburing.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/invariant.hpp"
#include "kvcache/io_backend.hpp"

namespace yolk::kvcache {

namespace {

constexpr unsigned ring_entries = 128;
/// The completion ring has twice the entries: what is in flight and the wake-up always fit.
constexpr std::size_t max_in_flight = ring_entries - 1;

/// The thread owns the ring: others leave requests in a list and wake it through an eventfd, so that no
/// submission, which may copy from the page cache at once, runs on the caller's thread.
class uring_backend final : public io_backend {
 public:
  uring_backend(const io_uring& ring, int wake) : ring_(ring), wake_(wake), thread_([this] { run(); }) {
    pthread_setname_np(thread_.native_handle(), "ssd-uring");
  }

  ~uring_backend() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake();
    thread_.join();
    io_uring_queue_exit(&ring_);
    close(wake_);
  }

  void start(const io_request& request, done on_done) override {
    auto started = std::make_unique<operation>(request, std::move(on_done));
    {
      const std::lock_guard lock(mutex_);
      YOLK_INVARIANT(!stopping_, request.offset);
      pending_.push_back(std::move(started));
    }
    wake();
  }

  [[nodiscard]] const char* name() const override { return "io_uring"; }

 private:
  struct operation {
    operation(const io_request& what, done then) : request(what), on_done(std::move(then)) {
      for (const auto& buffer : request.buffers)
        if (!buffer.empty()) parts[part_count++] = {buffer.data(), buffer.size()};
    }
    io_request request;
    done on_done;
    std::array<iovec, 2> parts{};
    unsigned part_count = 0;
  };

  void wake() const {
    const std::uint64_t one = 1;
    const auto written = write(wake_, &one, sizeof one);
    YOLK_INVARIANT(written == sizeof one, written, errno);
  }

  void listen() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read(entry, wake_, &wake_count_, sizeof wake_count_, 0);
    io_uring_sqe_set_data(entry, nullptr);
  }

  /// Prepares as many requests as fit; false when there is nothing more to wait for.
  bool prepare() {
    const std::lock_guard lock(mutex_);
    for (; !pending_.empty() && in_flight_ < max_in_flight; ++in_flight_) {
      io_uring_sqe* entry = io_uring_get_sqe(&ring_);
      if (entry == nullptr) break;  // the submission ring is full: after the next submit
      operation* next = pending_.front().release();
      pending_.pop_front();
      if (next->request.what == io_request::kind::read)
        io_uring_prep_readv(entry, next->request.file, next->parts.data(), next->part_count,
                            next->request.offset);
      else
        io_uring_prep_writev(entry, next->request.file, next->parts.data(), next->part_count,
                             next->request.offset);
      io_uring_sqe_set_data(entry, next);
    }
    return !stopping_ || in_flight_ > 0 || !pending_.empty();
  }

  void run() {
    listen();
    while (prepare()) {
      const int waited = io_uring_submit_and_wait(&ring_, 1);
      YOLK_INVARIANT(waited >= 0 || waited == -EINTR || waited == -EAGAIN || waited == -EBUSY, waited);
      io_uring_cqe* completion = nullptr;
      while (io_uring_peek_cqe(&ring_, &completion) == 0) {
        const std::unique_ptr<operation> ended(static_cast<operation*>(io_uring_cqe_get_data(completion)));
        const std::int64_t moved = completion->res;
        io_uring_cqe_seen(&ring_, completion);
        if (ended == nullptr) {
          listen();
          continue;
        }
        --in_flight_;
        ended->on_done(moved);
      }
    }
  }

  io_uring ring_;
  int wake_;
  std::uint64_t wake_count_ = 0;
  std::size_t in_flight_ = 0;  // the thread's
  std::mutex mutex_;
  std::deque<std::unique_ptr<operation>> pending_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

result<std::unique_ptr<io_backend>> make_uring_backend() {
  io_uring ring{};
  if (const int refused = io_uring_queue_init(ring_entries, &ring, 0); refused < 0)
    return core::failure<errc>{errc::storage_failed, std::string("io_uring: ") + std::strerror(-refused)};
  const int wake = eventfd(0, EFD_CLOEXEC);
  if (wake < 0) {
    const std::string why = std::strerror(errno);
    io_uring_queue_exit(&ring);
    return core::failure<errc>{errc::storage_failed, "eventfd: " + why};
  }
  return std::unique_ptr<io_backend>(std::make_unique<uring_backend>(ring, wake));
}

std::unique_ptr<io_backend> make_io_backend() {
  constexpr unsigned thread_count = 8;
  if (auto ring = make_uring_backend()) return std::move(ring).value();
  return make_thread_backend(thread_count);
}

}  // namespace yolk::kvcache
