#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "kvcache/io_backend.hpp"

namespace yolk::kvcache {

struct io_queue_limits {
  std::uint32_t reads_in_flight = 32;
  std::uint32_t writes_in_flight = 2;  ///< none of them larger than a piece
  std::size_t write_piece_bytes = std::size_t{1}
                                  << 20;  ///< of a larger write, one piece is in flight at a time
};

/// Whole reads and writes over a backend, reads first: a read waits for other reads at most, however many
/// writes are queued, and what the device has of writes at any time is bounded. Its user bounds what is
/// queued. Thread-safe.
class io_queue {
 public:
  /// 0 when all bytes were moved, else the errno: ENODATA where the file ends before the read does, ECANCELED
  /// after stop(). Called on the backend's thread, or from within stop().
  using done = std::function<void(int error)>;

  explicit io_queue(std::unique_ptr<io_backend> backend, io_queue_limits limits = {});
  ~io_queue();  ///< stops
  io_queue(const io_queue&) = delete;
  io_queue& operator=(const io_queue&) = delete;

  void submit(const io_request& request, done on_done);
  /// Drops what is not in flight, waits for what is. Idempotent.
  void stop();
  [[nodiscard]] const char* backend_name() const { return backend_->name(); }

 private:
  struct operation {
    io_request rest;  ///< what is still to be moved
    done on_done;
  };
  using operation_ptr = std::shared_ptr<operation>;

  [[nodiscard]] std::vector<operation_ptr> take_startable();
  void start(const operation_ptr& next);
  void complete(const operation_ptr& ended, std::int64_t moved);

  const io_queue_limits limits_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<operation_ptr> reads_;   // queued
  std::deque<operation_ptr> writes_;  // queued
  std::uint32_t reads_in_flight_ = 0;
  std::uint32_t writes_in_flight_ = 0;
  std::uint32_t completing_ = 0;  // completions whose functions still run
  bool stopping_ = false;
  std::unique_ptr<io_backend> backend_;
};

}  // namespace yolk::kvcache
