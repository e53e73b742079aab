#pragma once

#include <memory>

#include "actors/supervisor/node_options.hpp"
#include "actors/worker_environment.hpp"
#include "gpu/device.hpp"
#include "model/loaded_model.hpp"
#include "transport/transfer_engine.hpp"

namespace yolk::actors {

enum class node_errc { no_room, no_device, no_transport, no_storage, cannot_listen, no_identity, no_answer };
template <class T>
using node_result = core::result<T, node_errc>;

/// Makes what actors are given at each start: devices, executors, engines, pools. Owned by the supervisor;
/// immutable.
class worker_factory {
 public:
  worker_factory(node_options options, std::shared_ptr<const model::loaded_model> model,
                 std::shared_ptr<gpu::platform> platform, std::shared_ptr<metrics> recorder,
                 std::shared_ptr<const core::clock> clock);

  node_result<std::shared_ptr<worker_environment>> make_prefill(core::worker_id id,
                                                                core::incarnation incarnation) const;
  node_result<std::shared_ptr<worker_environment>> make_decode(core::worker_id id,
                                                               core::incarnation incarnation) const;
  node_result<std::shared_ptr<shard_environment>> make_shard(core::worker_id id,
                                                             core::incarnation incarnation) const;

  /// The longest sequence that every pool can hold, at most the model's context.
  [[nodiscard]] std::uint32_t max_context_tokens() const;
  [[nodiscard]] const node_options& options() const { return options_; }
  [[nodiscard]] const std::shared_ptr<const model::loaded_model>& model() const { return model_; }
  [[nodiscard]] const std::shared_ptr<metrics>& recorder() const { return recorder_; }
  [[nodiscard]] const std::shared_ptr<const core::clock>& clock() const { return clock_; }
  [[nodiscard]] std::string numerics() const { return platform_->numerics(); }
  [[nodiscard]] std::string device() const { return platform_->description(); }

 private:
  struct worker_shape {
    core::worker_id id;
    core::incarnation incarnation;
    std::uint64_t pool_bytes = 0;
    std::uint32_t max_rows = 0;
    std::string thread_name;
  };
  node_result<std::shared_ptr<worker_environment>> make(const worker_shape& shape) const;
  [[nodiscard]] transport::result<std::unique_ptr<transport::transfer_engine>> start_engine(
      std::uint64_t region_bytes, core::incarnation owner) const;

  node_options options_;
  std::shared_ptr<const model::loaded_model> model_;
  std::shared_ptr<gpu::platform> platform_;
  std::shared_ptr<metrics> recorder_;
  std::shared_ptr<const core::clock> clock_;
  kvcache::segment_layout layout_;
};

}  // namespace yolk::actors
