#include "gpu/host/kernel_table.hpp"
#include "gpu/host/simd_avx512.hpp"

// AVX-512 with bf16 dot products in GEMM; attention and the rest are those of AVX-512.

namespace {

using namespace yolk::gpu::host;
constexpr int gemm_rows = 6;
constexpr int attention_rows = 12;
constexpr int register_tile = 24;

}  // namespace

#define YOLK_GEMM_STEP "gpu/host/kernels_gemm_dot.inl"
#define YOLK_KERNELS avx512_bf16_kernels
#define YOLK_NUMERICS "host-bfloat16-dot-1"
#include "gpu/host/kernels.inl"
