#include "gpu/host/kernel_table.hpp"
#include "gpu/host/simd_plain.hpp"

// Every CPU: compiler vectors; multiplication and addition are rounded one by one.

namespace {

using namespace yolk::gpu::host;
constexpr int gemm_rows = 2;
constexpr int attention_rows = 2;
constexpr int register_tile = 2;

}  // namespace

#define YOLK_GEMM_STEP "gpu/host/kernels_gemm_float.inl"
#define YOLK_KERNELS plain_kernels
#define YOLK_NUMERICS "host-float-mul-add-1"
#include "gpu/host/kernels.inl"
