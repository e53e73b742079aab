#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "core/result.hpp"

namespace yolk::transport {

enum class errc {
  setup_failed,
  invalid_range,
  peer_unreachable,
  transfer_failed,
  deadline_exceeded,
  too_much_in_flight,
  stopped
};
template <class T>
using result = core::result<T, errc>;

/// Everything a peer needs to reach a region. Travels in messages; means nothing after its engine's
/// incarnation ended.
struct region_descriptor {
  core::incarnation owner;
  std::uint64_t base_address = 0;
  std::uint64_t length_bytes = 0;
  std::vector<std::byte> remote_key;
  std::vector<std::byte> worker_address;
};

/// One contiguous piece; offsets are relative to the two regions.
struct copy_range {
  std::uint64_t local_offset = 0;
  std::uint64_t remote_offset = 0;
  std::uint64_t bytes = 0;
};

struct transfer_report {
  std::uint64_t bytes = 0;
  core::duration elapsed{};
};

/// How bytes travel. automatic: a memcpy where the peer's memory is mapped here (same machine), else
/// messages, which the peer's engine serves. native: UCX's own put and get; for clusters whose every path has
/// RDMA in hardware (elsewhere UCX emulates them, and aborts a process whose peer dies in the middle).
/// messages: always.
enum class access_path { automatic, native, messages };

struct engine_options {
  std::size_t region_bytes = 0;
  core::incarnation owner;
  std::uint64_t max_in_flight_bytes = std::uint64_t{1}
                                      << 30;  ///< per peer; above it a transfer waits its turn
  std::uint32_t max_queued_transfers =
      4096;  ///< not yet completed, all peers; above it: errc::too_much_in_flight
  /// Peers whose endpoints (and mapped memory) are kept. Above it the one that was idle for longest is
  /// closed; when all have transfers open, one with a further peer is too_much_in_flight.
  std::uint32_t max_cached_peers = 256;
  /// UCX's transports, as UCX_TLS has them. "^posix" is all but one: a POSIX segment is named by process and
  /// file number, so a dead engine's can turn into a living one's; System V's names are not used again, nor
  /// do they need /dev/shm.
  std::string transports = "^posix";
  /// The network devices that peers can reach the engine by, as UCX_NET_DEVICES has them ("lo", "eth0,lo");
  /// empty: all. UCX listens on each. Shared memory is no network device.
  std::string network_devices;
  access_path access = access_path::automatic;
};

struct engine_counters {
  std::uint64_t transfers = 0;
  std::uint64_t failures = 0;
  std::uint64_t put_bytes = 0;
  std::uint64_t get_bytes = 0;
  std::uint64_t queued = 0;  ///< taken and not yet completed, now
};

/// One registered memory region, one UCX worker and the one thread that drives both (epoll, never a busy
/// poll). Owned by an actor. put/get/forget may be called from any thread; completions run on the engine's
/// thread and must not block (they post a message). Every transfer completes exactly once: done, failed, or
/// past its deadline. One that is refused at max_queued_transfers, or while the engine ends, completes on the
/// caller's thread before put or get returns.
///
/// When a transfer has completed, however it ended, UCX touches its local bytes no more. What a failed put
/// left at the target is unknown. A peer whose process was killed may still read as alive over shared memory
/// (its memory stays mapped here until forget()): who hears of the death must call forget(), and blocks carry
/// checksums.
class transfer_engine {
 public:
  using completion = std::function<void(result<transfer_report>)>;

  static result<std::unique_ptr<transfer_engine>> start(const engine_options& options);
  /// Ends the thread; transfers still open complete with errc::stopped first.
  virtual ~transfer_engine() = default;

  [[nodiscard]] virtual std::span<std::byte> region() = 0;
  [[nodiscard]] virtual const region_descriptor& descriptor() const = 0;

  /// `deadline` counts from the call. Local → remote. Completed means visible at the target. Adjacent ranges
  /// are coalesced.
  virtual void put(const region_descriptor& to, std::vector<copy_range> ranges, core::duration deadline,
                   completion done) = 0;
  /// Remote → local.
  virtual void get(const region_descriptor& from, std::vector<copy_range> ranges, core::duration deadline,
                   completion done) = 0;
  /// The peer is dead: closes its endpoint; its open transfers fail with peer_unreachable.
  virtual void forget(const region_descriptor& peer) = 0;

  [[nodiscard]] virtual engine_counters counters() const = 0;
};

}  // namespace yolk::transport
