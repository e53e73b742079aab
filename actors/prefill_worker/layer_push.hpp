#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "actors/metrics.hpp"
#include "core/clock.hpp"
#include "core/ids.hpp"
#include "kvcache/segment_layout.hpp"
#include "transport/transfer_engine.hpp"

namespace yolk::actors {

/// Where one sequence's KV goes: local block i of the sequence to remote block i, layer by layer.
struct push_route {
  kvcache::segment_layout layout;
  std::vector<core::block_index> local_blocks;
  std::vector<core::block_index> remote_blocks;
  std::uint32_t resident_blocks = 0;  ///< leading blocks that are there already
  transport::region_descriptor remote;
  core::duration deadline{};
};

/// The pushes of one leg. Started by the device's thread as layers are done, completed by the engine's
/// thread; tells its owner once, when it was closed and nothing is on its way any more. Shared by those
/// threads and the worker.
class layer_push : public std::enable_shared_from_this<layer_push> {
 public:
  using finished = std::function<void(bool all_arrived)>;

  layer_push(push_route route, transport::transfer_engine& engine, std::shared_ptr<metrics> recorder,
             finished on_finished);

  /// Pushes `layer` of the sequence's blocks [first, last), whose checksums are entered by the caller first
  /// or taken here from the bytes. Any thread; a given (block, layer) once.
  void push(std::uint32_t layer, std::uint32_t first_block, std::uint32_t last_block);
  /// A cached block's checksums, known from its header: so that they need not be computed again.
  void enter_checksums(std::uint32_t block, std::span<const std::uint64_t> layer_checksums);
  /// Nothing more will be pushed.
  void close();

  /// [block - resident_blocks][layer]; complete once all blocks were pushed.
  [[nodiscard]] const std::vector<std::uint64_t>& checksums() const { return checksums_; }
  [[nodiscard]] std::span<const std::uint64_t> checksums_of(std::uint32_t block) const;

 private:
  void complete(const transport::result<transport::transfer_report>& outcome);
  void release();

  push_route route_;
  transport::transfer_engine& engine_;
  std::shared_ptr<metrics> recorder_;
  finished on_finished_;
  std::vector<std::uint64_t> checksums_;  ///< 0 = not known yet
  std::atomic<std::uint32_t> open_{1};    ///< transfers on their way, and one until close()
  std::atomic<bool> failed_{false};
};

}  // namespace yolk::actors
