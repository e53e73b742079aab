#include "actors/prefill_worker/layer_push.hpp"

#include <algorithm>

#include "core/invariant.hpp"
#include "kvcache/block_header.hpp"

namespace yolk::actors {

layer_push::layer_push(push_route route, transport::transfer_engine& engine,
                       std::shared_ptr<metrics> recorder, finished on_finished)
    : route_(std::move(route)),
      engine_(engine),
      recorder_(std::move(recorder)),
      on_finished_(std::move(on_finished)) {
  YOLK_INVARIANT(route_.local_blocks.size() == route_.remote_blocks.size(), route_.local_blocks.size(),
                 route_.remote_blocks.size());
  checksums_.resize((route_.local_blocks.size() -
                     std::min<std::size_t>(route_.resident_blocks, route_.local_blocks.size())) *
                    route_.layout.layer_count);
}

void layer_push::push(std::uint32_t layer, std::uint32_t first_block, std::uint32_t last_block) {
  const auto& layout = route_.layout;
  const auto pool = engine_.region();
  std::vector<transport::copy_range> ranges;
  for (std::uint32_t block = std::max(first_block, route_.resident_blocks); block < last_block; ++block) {
    const std::uint64_t local =
        route_.local_blocks[block] * layout.block_bytes() + layout.layer_offset(layer);
    const std::uint64_t remote =
        route_.remote_blocks[block] * layout.block_bytes() + layout.layer_offset(layer);
    auto& sum = checksums_[(block - route_.resident_blocks) * layout.layer_count + layer];
    if (sum == 0) sum = kvcache::checksum(pool.subspan(local, layout.layer_bytes()));
    ranges.push_back({local, remote, layout.layer_bytes()});
  }
  if (ranges.empty()) return;
  open_.fetch_add(1, std::memory_order_relaxed);
  engine_.put(route_.remote, std::move(ranges), route_.deadline,
              [self = shared_from_this()](const auto& outcome) { self->complete(outcome); });
}

void layer_push::enter_checksums(std::uint32_t block, std::span<const std::uint64_t> layer_checksums) {
  if (block < route_.resident_blocks) return;
  const auto layers = route_.layout.layer_count;
  YOLK_INVARIANT(layer_checksums.size() == layers, layer_checksums.size(), layers);
  std::copy(layer_checksums.begin(), layer_checksums.end(),
            checksums_.begin() + (block - route_.resident_blocks) * layers);
}

std::span<const std::uint64_t> layer_push::checksums_of(std::uint32_t block) const {
  if (block < route_.resident_blocks) return {};
  const auto layers = route_.layout.layer_count;
  return std::span(checksums_).subspan((block - route_.resident_blocks) * layers, layers);
}

void layer_push::close() {
  release();
}

void layer_push::complete(const transport::result<transport::transfer_report>& outcome) {
  if (outcome) {
    recorder_->transfer(metrics::transfer_path::prefill_to_decode, outcome->bytes, outcome->elapsed);
  } else {
    failed_.store(true, std::memory_order_relaxed);
    recorder_->transfer_failed(metrics::transfer_path::prefill_to_decode);
  }
  release();
}

void layer_push::release() {
  if (open_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    on_finished_(!failed_.load(std::memory_order_relaxed));
}

}  // namespace yolk::actors
