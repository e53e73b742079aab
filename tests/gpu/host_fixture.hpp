#pragma once

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/host/host_platform.hpp"
#include "tests/gpu/reference.hpp"

namespace yolk::gpu::host {

/// A platform of one ISA with a device in a step.
struct running_device {
  explicit running_device(instruction_set isa, unsigned threads = 2)
      : platform(*make_host_platform({.thread_count = threads, .force_isa = isa})),
        device(*platform->create_device()) {
    device->begin_step(step_class::prefill);
  }
  ~running_device() { device->end_step(); }
  running_device(const running_device&) = delete;
  running_device& operator=(const running_device&) = delete;

  [[nodiscard]] std::shared_ptr<const weight_matrix> pack_floats(const std::vector<float>& values,
                                                                 std::size_t rows, std::size_t columns) {
    const matrix_view view = {.data = values.data(), .type = dtype::f32, .rows = rows, .columns = columns};
    // Packing takes a turn of its own.
    device->end_step();
    auto packed = *platform->pack({&view, 1});
    device->begin_step(step_class::prefill);
    return packed;
  }

  std::shared_ptr<yolk::gpu::platform> platform;
  std::unique_ptr<yolk::gpu::device> device;
};

inline std::string name_of_set(instruction_set isa) {
  switch (isa) {
    case instruction_set::plain:
      return "plain";
    case instruction_set::avx2:
      return "avx2";
    case instruction_set::avx512:
      return "avx512";
    case instruction_set::avx512_bf16:
      return "avx512_bf16";
  }
  return "?";
}

/// Calls test(isa) for everything that this CPU has, naming it in failures.
template <class Test>
void for_every_isa(const Test& test) {
  for (const instruction_set isa : available_instruction_sets()) {
    CAPTURE(name_of_set(isa));
    test(isa);
  }
}

/// Paged memory of one layer, full of NaN until something is written, with the layer in the middle of each
/// block.
struct paged_memory {
  paged_memory(std::uint32_t block_count, std::uint32_t kv_head_count, std::uint32_t head_dim,
               std::uint32_t block_tokens) {
    const std::size_t layer_bytes = std::size_t{block_tokens} * head_dim * 2 * 2 * kv_head_count;
    const std::size_t offset = 64;
    const std::size_t block_bytes = (layer_bytes + 3 * offset) / 64 * 64;
    memory.assign(block_count * block_bytes + 64, std::byte{0xff});
    auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    view = {.pool = memory.data() + (64 - address % 64) % 64,
            .block_bytes = block_bytes,
            .layer_offset_bytes = offset,
            .kv_head_count = kv_head_count,
            .head_dim = head_dim,
            .block_tokens = block_tokens};
  }
  paged_memory(const paged_memory&) = delete;
  paged_memory& operator=(const paged_memory&) = delete;

  /// Random K and V for positions [0, count).
  void write(core::random_source& random, std::span<const core::block_index> blocks,
             std::size_t count) const {
    for (std::size_t position = 0; position < count; ++position) {
      for (std::uint32_t head = 0; head < view.kv_head_count; ++head) {
        for (const bool value : {false, true}) {
          std::uint16_t* at = reference::kv_vector(view, head, value, blocks, position);
          for (std::uint32_t d = 0; d < view.head_dim; ++d) {
            at[d] = core::to_bfloat16(reference::random_bfloat(random)).bits;
          }
        }
      }
    }
  }

  std::vector<std::byte> memory;
  kv_layer_view view;
};

/// The numbers from 0, shuffled.
inline std::vector<core::block_index> shuffled(core::random_source& random, std::uint32_t count) {
  std::vector<core::block_index> order(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t j = random.below(i + 1);
    order[i] = order[j];
    order[j] = i;
  }
  return order;
}

inline bool same_bits(const float* a, const float* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

}  // namespace yolk::gpu::host
