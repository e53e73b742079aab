#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/ids.hpp"
#include "core/result.hpp"

namespace yolk::gpu {

enum class errc { unavailable, unsupported, out_of_memory };
template <class T>
using result = core::result<T, errc>;

enum class dtype : std::uint8_t { f32, f16, bf16 };
constexpr std::size_t size_of(dtype type) {
  return type == dtype::f32 ? 4 : 2;
}

/// A weight matrix as it lies in a file: row-major [rows][columns], y = x · Wᵀ.
struct matrix_view {
  const void* data = nullptr;
  dtype type = dtype::bf16;
  std::size_t rows = 0;     ///< N, outputs
  std::size_t columns = 0;  ///< K, inputs
};

/// A weight matrix packed for a platform's GEMM (bf16). Immutable, shared by all devices of the platform.
class weight_matrix {
 public:
  virtual ~weight_matrix() = default;
  [[nodiscard]] virtual std::size_t rows() const = 0;
  [[nodiscard]] virtual std::size_t columns() const = 0;
  [[nodiscard]] virtual std::size_t bytes() const = 0;
};

/// y[row][n] (+)= sum over k of x[row][k] · W[n][k] (+ bias[n]). For every (row, n) the reduction order over
/// k is fixed, whatever row_count is (invariant 2). x and y must not overlap.
struct gemm_args {
  const float* x = nullptr;  ///< [row_count][columns], row stride x_stride floats
  std::size_t x_stride = 0;
  const weight_matrix* weights = nullptr;
  const float* bias = nullptr;  ///< [rows] or null
  float* y = nullptr;           ///< [row_count][rows], row stride y_stride floats
  std::size_t y_stride = 0;
  std::size_t row_count = 0;
  bool accumulate = false;  ///< y += (residual connections)
};

/// out[row][:] = table row of tokens[row] (widened to float).
struct embed_args {
  const weight_matrix* table = nullptr;  ///< [vocabulary][hidden]
  std::span<const core::token_id> tokens;
  float* out = nullptr;  ///< [tokens.size()][hidden]
};

/// out = x / sqrt(mean(x²) + epsilon) · weight, row by row (Zhang and Sennrich 2019). out may be x.
struct rms_norm_args {
  const float* x = nullptr;
  std::size_t x_stride = 0;       ///< floats
  const float* weight = nullptr;  ///< [columns]
  float* out = nullptr;
  std::size_t out_stride = 0;
  std::size_t row_count = 0;
  std::size_t columns = 0;
  float epsilon = 1e-5f;
};

/// One layer's KV within a pool of blocks: at pool + block · block_bytes + layer_offset_bytes lie the
/// segments [kv_head][K|V], each [block_tokens][head_dim] bf16, contiguous and 64-byte aligned.
struct kv_layer_view {
  std::byte* pool = nullptr;
  std::size_t block_bytes = 0;
  std::size_t layer_offset_bytes = 0;
  std::uint32_t kv_head_count = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t block_tokens = 0;
};

/// Some consecutive tokens of one sequence, as rows of a ragged batch: row first_row + i is the token at
/// position first_position + i, and the KV of position p lies in blocks[p / block_tokens].
struct row_span {
  std::uint32_t first_row = 0;
  std::uint32_t row_count = 0;
  std::uint32_t first_position = 0;
  std::span<const core::block_index> blocks;
};

/// Splits fused projections, normalises q and k per head where the model does (Qwen3), rotates them
/// (half-split pairs d, d + head_dim/2, as Hugging Face's rotate_half), writes q out and scatters K and V as
/// bf16 into blocks.
struct rope_scatter_args {
  const float* qkv =
      nullptr;  ///< [rows][(query_head_count + 2 · kv_head_count) · head_dim]: q heads, k heads, v heads
  std::size_t qkv_stride = 0;  ///< floats
  float* q = nullptr;          ///< [rows][query_head_count · head_dim]
  std::uint32_t query_head_count = 0;
  const float* q_norm = nullptr;  ///< [head_dim] or null
  const float* k_norm = nullptr;  ///< [head_dim] or null
  float norm_epsilon = 1e-6f;
  const float* cosine = nullptr;  ///< [positions][head_dim / 2]
  const float* sine = nullptr;
  kv_layer_view kv;
  std::span<const row_span> spans;
};

/// Causal attention of every row over positions 0 .. its own, through the block table. Key blocks are visited
/// in ascending order with one online softmax per (row, query head), so the result does not depend on how
/// rows were grouped (invariant 2). Query head h reads KV head h / (query_head_count / kv_head_count).
struct paged_attention_args {
  const float* q = nullptr;  ///< [rows][query_head_count · head_dim]
  float* out = nullptr;      ///< same shape
  std::uint32_t query_head_count = 0;
  float scale = 0.0f;  ///< 1 / sqrt(head_dim)
  kv_layer_view kv;
  std::span<const row_span> spans;
};

/// out[row][i] = silu(gate_up[row][i]) · gate_up[row][inner + i] (Shazeer 2020).
struct swiglu_args {
  const float* gate_up = nullptr;  ///< [row_count][2 · inner]
  std::size_t gate_up_stride = 0;
  float* out = nullptr;  ///< [row_count][inner]
  std::size_t out_stride = 0;
  std::size_t row_count = 0;
  std::size_t inner = 0;
};

/// What a step is for: how devices of one platform that share the same cores take turns.
enum class step_class : std::uint8_t { prefill, decode };

/// Where tensors live and kernels run, as one worker sees it: its own stream of work. Owned by one worker;
/// all calls come from that worker's driver thread, between begin_step and end_step for kernels. On `host`
/// the calls compute before they return; buffers are plain memory.
class device {
 public:
  virtual ~device() = default;
  [[nodiscard]] virtual std::string_view kind() const = 0;  ///< "host" or "cuda"

  /// Waits until this device may use the platform's cores; end_step gives them back. Between any two kernel
  /// calls in a step the device may lend the cores to another device's step (decode before prefill, in
  /// bounded shares).
  virtual void begin_step(step_class kind) = 0;
  virtual void end_step() = 0;

  virtual void embed(const embed_args&) = 0;
  virtual void rms_norm(const rms_norm_args&) = 0;
  virtual void gemm(const gemm_args&) = 0;
  virtual void rope_scatter(const rope_scatter_args&) = 0;
  virtual void paged_attention(const paged_attention_args&) = 0;
  virtual void swiglu(const swiglu_args&) = 0;
};

/// One kind of hardware in this process: packs weights once, makes devices. Thread-safe.
class platform {
 public:
  virtual ~platform() = default;
  [[nodiscard]] virtual std::string_view kind() const = 0;
  /// One line for people: "host: AVX-512, 2 threads".
  [[nodiscard]] virtual std::string description() const = 0;
  /// Names the arithmetic: equal names give equal bits. Part of the root of every block key.
  [[nodiscard]] virtual std::string numerics() const = 0;
  /// Copies and packs (converting to bf16 where the file has another type). Several matrices with equal
  /// `columns` are stacked by rows into one (fused QKV, fused gate and up).
  [[nodiscard]] virtual result<std::shared_ptr<const weight_matrix>> pack(
      std::span<const matrix_view> stacked) = 0;
  [[nodiscard]] virtual result<std::unique_ptr<device>> create_device() = 0;
};

}  // namespace yolk::gpu
