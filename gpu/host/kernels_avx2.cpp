#include "gpu/host/kernel_table.hpp"
#include "gpu/host/simd_avx2.hpp"

// AVX2 and FMA: twelve of sixteen registers hold sums.

namespace {

using namespace yolk::gpu::host;
constexpr int gemm_rows = 6;
constexpr int attention_rows = 6;
constexpr int register_tile = 6;

}  // namespace

#define YOLK_GEMM_STEP "gpu/host/kernels_gemm_float.inl"
#define YOLK_KERNELS avx2_kernels
#define YOLK_NUMERICS "host-float-fma-1"
#include "gpu/host/kernels.inl"
