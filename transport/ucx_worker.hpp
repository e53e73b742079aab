#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "transport/transfer_engine.hpp"

namespace yolk::transport {

/// Stands right before a region. A peer reads it along with each transfer: only while it holds the
/// descriptor's nonce is the engine that gave the descriptor out alive. (Shared memory outlives its owner in
/// those who have it mapped.)
struct region_header {
  std::uint64_t magic = 0;
  std::uint64_t owner = 0;
  std::uint64_t nonce = 0;
  std::uint64_t base_address = 0;
  std::uint64_t length_bytes = 0;
  std::uint64_t padding[3] = {};
};
static_assert(sizeof(region_header) == 64);
inline constexpr std::uint64_t region_magic = 0x314e474552'4b59;  // "YKREGN1"

/// UCX's context, worker and registered memory of one engine. Owned by the engine; used by the engine's
/// thread alone once that runs, wake() excepted.
class ucx_worker {
 public:
  static result<std::unique_ptr<ucx_worker>> create(const engine_options& options);
  ~ucx_worker();
  ucx_worker(const ucx_worker&) = delete;
  ucx_worker& operator=(const ucx_worker&) = delete;

  [[nodiscard]] std::span<std::byte> region() const { return region_; }
  [[nodiscard]] const region_descriptor& descriptor() const { return descriptor_; }
  [[nodiscard]] ucp_worker_h handle() const { return worker_; }
  [[nodiscard]] ucp_mem_h memory() const { return memory_; }

  /// Calls the callbacks of what has finished; whether there was anything.
  bool progress();
  /// Sleeps until the network has something, wake() is called or the time comes.
  void wait(std::optional<core::time_point> until);
  /// Any thread: the present or next wait() returns.
  void wake() const;
  /// Whether a peer that names these two means this region, and it has not been revoked.
  [[nodiscard]] bool is_named_by(std::uint64_t owner, std::uint64_t nonce) const {
    return nonce != 0 && nonce == header_->nonce && owner == header_->owner;
  }
  /// From now on peers see that this region's engine has ended.
  void revoke();

 private:
  ucx_worker() = default;
  std::optional<core::failure<errc>> set_up(const engine_options& options);
  std::optional<core::failure<errc>> set_up_context(const engine_options& options);
  std::optional<core::failure<errc>> set_up_region(const engine_options& options);
  std::optional<core::failure<errc>> set_up_wait();

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_mem_h memory_ = nullptr;
  region_header* header_ = nullptr;
  std::uint64_t nonce_ = 0;  ///< the header's, which revoke() wipes
  std::span<std::byte> region_;
  region_descriptor descriptor_;
  int wake_fd_ = -1;
  int epoll_fd_ = -1;
  int busy_streak_ = 0;  // waits in a row that UCX refused although nothing progressed
};

}  // namespace yolk::transport
