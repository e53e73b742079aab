// One ISA's kernels: included by each kernels_*.cpp after its vector type, gemm_rows, attention_rows,
// register_tile and gemm file. Everything is local to the including file, which is compiled for its own CPU.
// In this order:
// clang-format off
#include "gpu/host/kernels_tile.inl"
#include YOLK_GEMM_STEP
#include "gpu/host/kernels_gemm.inl"
#include "gpu/host/kernels_rows.inl"
#include "gpu/host/kernels_attention.inl"
// clang-format on

namespace yolk::gpu::host {

const kernel_table YOLK_KERNELS = {
    .numerics = YOLK_NUMERICS,
    .max_group_rows = gemm_rows,
    .packed_bytes = sizeof(packed_element) * elements_per_pair / 2,
    .pack_rows = pack_kernel,
    .gemm = gemm_kernel,
    .attention = attention_kernel,
    .rope_scatter = rope_scatter_kernel,
    .rms_norm = rms_norm_kernel,
    .swiglu = swiglu_kernel,
    .probe = probe_kernel,
    .probe_products = products_per_probe,
};

}  // namespace yolk::gpu::host
