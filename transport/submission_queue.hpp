#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "transport/transfer_engine.hpp"

namespace yolk::transport {

enum class submission_kind { put, get, forget };

/// A call of put, get or forget on its way to the engine's thread.
struct submission {
  submission_kind kind = submission_kind::put;
  region_descriptor peer;
  std::vector<copy_range> ranges;
  core::time_point submitted;
  core::time_point deadline;
  transfer_engine::completion done;
};

/// What any thread asks of the engine's thread. Owned by the engine; every member from any thread. Bounded:
/// transfers count from push() until completed(), so the limit holds for those under way too.
class submission_queue {
 public:
  explicit submission_queue(std::uint32_t max_transfers) : max_transfers_(max_transfers) {}

  enum class answer { taken, taken_first, full, stopped };
  /// Moves from `asked` only when it is taken. taken_first: the queue was empty, wake its reader.
  answer push(submission& asked);
  [[nodiscard]] std::vector<submission> take();
  void completed();
  void stop();
  [[nodiscard]] bool stopping() const;
  [[nodiscard]] std::uint64_t open_transfers() const;

 private:
  [[nodiscard]] bool is_forgotten_already(const region_descriptor& peer) const;

  const std::uint32_t max_transfers_;
  mutable std::mutex mutex_;
  std::vector<submission> pending_;
  std::uint64_t open_ = 0;
  bool stopping_ = false;
};

}  // namespace yolk::transport
