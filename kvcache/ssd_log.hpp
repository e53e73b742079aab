#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "kvcache/block_header.hpp"
#include "kvcache/io_queue.hpp"
#include "kvcache/prefix_cache.hpp"

namespace yolk::kvcache {

struct ssd_log_options {
  std::filesystem::path folder;  ///< created if needed; one process at a time
  std::uint64_t byte_limit = 0;  ///< of all files together
  std::uint64_t file_bytes = 0;  ///< of one file; 0 = a sixteenth of the limit, at most 1 GiB
  segment_layout layout;
  block_key owner;  ///< make_root of model, KV type and format, without tenant: whose files these are
  core::incarnation incarnation;  ///< larger than that of any earlier log in the folder
  /// Saves in progress, 2,048 at most; beyond, one is dropped.
  std::uint64_t max_saving_bytes = std::uint64_t{256} << 20;
  std::uint32_t max_reads = 4096;  ///< in progress; beyond, a read is a miss
  io_queue_limits io{};
};

struct ssd_log_counters {
  std::uint64_t restored_blocks = 0;  ///< found at the start
  std::uint64_t saved_blocks = 0;
  std::uint64_t dropped_saves = 0;  ///< queue full, or its beginning is not here
  std::uint64_t failed_saves = 0;   ///< the disk did not take it
  std::uint64_t read_blocks = 0;    ///< and verified
  std::uint64_t failed_reads = 0;   ///< the disk did not give it
  std::uint64_t failed_checks = 0;  ///< the disk gave something else
  std::uint64_t reclaimed_files = 0;
  std::uint64_t reclaimed_blocks = 0;
};

/// The SSD tier of KV: a log of block files that are only appended to, the oldest of which is dropped when a
/// new one would exceed the byte limit. What it holds survives the process; after a start every block whose
/// head is intact can be found again, and is given out only if its payload matches the head's checksums and
/// the head the index. Owned by one thread (a cache_shard actor); that thread is never blocked by I/O: heads
/// and files are made on a thread of the log, bytes are moved and checked by the I/O backend, and the end of
/// each is told through `post`.
class ssd_log {
 public:
  /// Has the function run on the owner's thread, soon. Called from any thread.
  using poster = std::function<void(std::function<void()>)>;

  /// Reads back what is there. Blocks; fails if the folder cannot be used or the limit is too small.
  static result<std::unique_ptr<ssd_log>> open(const ssd_log_options& given,
                                               std::unique_ptr<io_backend> backend);
  ~ssd_log();  ///< drops saves that have not begun, waits for I/O in flight; nothing is told any more
  ssd_log(const ssd_log&) = delete;
  ssd_log& operator=(const ssd_log&) = delete;

  /// Who the owner is. Before the first save or read.
  void attach(poster post);

  enum class save_outcome : std::uint8_t { started, present, dropped };
  /// Appends a block, parents first. If started, `block` must stay as it is until `on_done`, which says
  /// whether it was saved.
  save_outcome save(const block_header& header, std::span<const std::byte> block,
                    std::function<void(bool saved)> on_done);
  [[nodiscard]] std::size_t saving_room() const;  ///< how many more saves the queue takes now

  /// Keys of the stored blocks that continue the first skip_blocks of `tokens`, in order, proved by their
  /// tokens. A chain whose beginning the log never saw cannot be proved: nothing is found.
  [[nodiscard]] std::vector<block_key> match(block_key root, std::span<const core::token_id> tokens,
                                             std::size_t skip_blocks, std::size_t max_tokens);
  /// Reads the stored block `key` into `into` (block_bytes), which must stay writable until `on_read`: its
  /// header, or nothing if it could not be read or is not what it should be; it is dropped then. False if it
  /// is not stored, or too many reads are in progress.
  [[nodiscard]] bool read(block_key key, std::span<std::byte> into,
                          std::function<void(std::optional<block_header>)> on_read);

  [[nodiscard]] bool holds(block_key key) const;  ///< stored
  [[nodiscard]] bool knows(block_key key) const;  ///< stored, or being saved
  [[nodiscard]] std::vector<block_key> snapshot() const;
  /// Called on every change of what is stored, on the owner's thread; must not call the log.
  void set_listener(std::function<void(const cache_event&)> listener);

  /// Waits until no save is in progress, at most so long; false when the time did not suffice.
  bool flush(core::duration limit);

  [[nodiscard]] std::uint64_t used_bytes() const;  ///< of all files; the one that is written counts whole
  [[nodiscard]] std::uint64_t byte_limit() const;
  [[nodiscard]] std::uint64_t record_bytes() const;
  [[nodiscard]] std::size_t stored_count() const;
  [[nodiscard]] bool idle() const;  ///< nothing is being saved or read
  [[nodiscard]] const ssd_log_counters& counters() const;
  [[nodiscard]] const char* backend_name() const;
  /// Empty when the books fit together.
  [[nodiscard]] std::string audit() const;

 private:
  struct state;
  explicit ssd_log(std::shared_ptr<state> made);
  std::shared_ptr<state> state_;
};

}  // namespace yolk::kvcache
