#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kvcache/errc.hpp"

namespace yolk::kvcache {

/// One read or write at a place of an open file: of up to two buffers, which follow each other in the file.
struct io_request {
  enum class kind : std::uint8_t { read, write } what = kind::read;
  int file = -1;  ///< a descriptor that stays open until the request is done
  std::uint64_t offset = 0;
  std::array<std::span<std::byte>, 2> buffers;  ///< a write does not change them

  [[nodiscard]] std::size_t byte_count() const { return buffers[0].size() + buffers[1].size(); }
};

/// What moves the bytes of requests, several at a time, in no order. Thread-safe.
class io_backend {
 public:
  /// Bytes moved (they may be fewer than asked; 0 = the file ends here), or the negative errno. Called on a
  /// thread of the backend, never from within start().
  using done = std::function<void(std::int64_t moved)>;

  virtual ~io_backend() = default;  ///< waits for what was started
  virtual void start(const io_request& request, done on_done) = 0;
  [[nodiscard]] virtual const char* name() const = 0;
};

/// One io_uring and the thread that owns it. Fails where the kernel (or a container's seccomp profile)
/// refuses io_uring.
[[nodiscard]] result<std::unique_ptr<io_backend>> make_uring_backend();
/// Plain threads, one request each at a time.
[[nodiscard]] std::unique_ptr<io_backend> make_thread_backend(unsigned thread_count);
/// io_uring where it works, else eight threads.
[[nodiscard]] std::unique_ptr<io_backend> make_io_backend();

}  // namespace yolk::kvcache
