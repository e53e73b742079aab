#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gpu/device.hpp"

namespace yolk::gpu::host {

/// avx512_bf16 rounds GEMM's activations to bf16 (numerics() says so); the others multiply them as floats,
/// and avx2 and avx512 give equal bits.
enum class instruction_set { plain, avx2, avx512, avx512_bf16 };

struct host_options {
  unsigned thread_count = 0;                 ///< 0 = as many as the process may run on
  std::optional<instruction_set> force_isa;  ///< tests run every one that the CPU has
  /// How much longer than a decode step a prefill may keep the cores while a decode step waits: the gap
  /// between two tokens under an arriving prompt is about (1 + prefill_share) decode steps.
  double prefill_share = 1.0;
};

/// The CPU as a platform: one team of threads for the whole process, lent to one device's step at a time.
result<std::shared_ptr<platform>> make_host_platform(const host_options& options);

/// What this CPU can run, best last: bf16 dot products count as better than float multiply-adds where a short
/// measurement finds them clearly faster (on some CPUs they run at half the rate).
std::vector<instruction_set> available_instruction_sets();

}  // namespace yolk::gpu::host
