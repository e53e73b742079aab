#include "gpu/host/kernel_table.hpp"
#include "gpu/host/simd_avx512.hpp"

// AVX-512: 24 of 32 registers hold sums. The arithmetic is AVX2's, bit for bit.

namespace {

using namespace yolk::gpu::host;
constexpr int gemm_rows = 6;
constexpr int attention_rows = 12;
constexpr int register_tile = 24;

}  // namespace

#define YOLK_GEMM_STEP "gpu/host/kernels_gemm_float.inl"
#define YOLK_KERNELS avx512_kernels
#define YOLK_NUMERICS "host-float-fma-1"
#include "gpu/host/kernels.inl"
