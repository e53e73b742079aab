#pragma once

#include <cstddef>
#include <cstdint>

/// What the per-ISA object files offer to the rest of the room. Those files are compiled with instructions
/// that the running CPU may lack, so this header holds plain data and pointers alone: an inline function or a
/// standard container here could be emitted with those instructions and then be kept by the linker for
/// everyone.
namespace yolk::gpu::host {

/// Weights are packed in panels of this many outputs: [panel][pair of inputs][64] words, each word two bf16
/// (the even input in the low half). Rows and inputs beyond the matrix are zero.
inline constexpr std::size_t panel_columns = 64;
/// Attention looks at this many keys at a time; part of the arithmetic, since softmax rescales once per
/// chunk.
inline constexpr std::size_t chunk_tokens = 64;
/// (row, query head) pairs that one attention piece handles at most, sharing every widened key.
inline constexpr std::size_t max_attention_pairs = 64;
inline constexpr std::size_t max_head_dim = 512;
/// Activation rows in one GEMM piece at most.
inline constexpr std::size_t max_piece_rows = 264;
/// A vector: row counts of heads and columns are handled in lanes of this many floats in every ISA, so that
/// reductions over lanes have one order everywhere.
inline constexpr std::size_t lane_count = 16;
/// Working memory of one thread, bytes (64-byte aligned); both kinds of piece lay it out themselves.
inline constexpr std::size_t scratch_bytes = std::size_t{768} << 10;

struct gemm_piece {
  const void* rows = nullptr;  ///< all packed activations of the call (see kernel_table::pack_rows)
  const std::uint32_t* panels = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  std::size_t y_stride = 0;
  std::size_t row_count = 0;  ///< of the call
  std::size_t output_count = 0;
  std::size_t pair_count = 0;  ///< inputs / 2, rounded up
  bool accumulate = false;
  // This piece: one panel, a range of row groups.
  std::size_t panel = 0;
  std::size_t group_begin = 0;
  std::size_t group_end = 0;
};

struct rows_to_pack {
  const float* x = nullptr;
  std::size_t x_stride = 0;
  std::size_t row_count = 0;
  std::size_t input_count = 0;
  void* out = nullptr;
};

struct attention_piece {
  const float* q = nullptr;  ///< first row, first head of the piece
  float* out = nullptr;
  std::size_t row_stride = 0;  ///< floats
  std::size_t row_count = 0;
  std::size_t head_count =
      0;  ///< query heads that share the KV head; row_count · head_count <= max_attention_pairs
  std::size_t head_dim = 0;
  float scale = 0.0f;
  const unsigned char* keys = nullptr;    ///< pool + the offset of the KV head's K segment within a block
  const unsigned char* values = nullptr;  ///< the same for V
  std::size_t block_bytes = 0;
  std::size_t block_tokens = 0;
  const std::uint32_t* blocks = nullptr;
  std::size_t first_position = 0;
};

struct rope_row {
  const float* qkv = nullptr;
  float* q = nullptr;
  std::size_t query_head_count = 0;
  std::size_t kv_head_count = 0;
  std::size_t head_dim = 0;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  float norm_epsilon = 0.0f;
  const float* cosine = nullptr;  ///< of this row's position, [head_dim / 2]
  const float* sine = nullptr;
  unsigned char* slot = nullptr;  ///< KV head 0's K vector of this token; heads follow at 2 · segment_bytes
  std::size_t segment_bytes = 0;
};

struct kernel_table {
  /// Equal names, equal bits.
  const char* numerics;
  /// Most activation rows of one register tile; a call's rows are split into groups of equal size up to this.
  std::size_t max_group_rows;
  /// Bytes of one packed activation.
  std::size_t packed_bytes;
  /// Lays inputs [begin, end) of a group of activations out as [group][input][row in group]; begin is even.
  void (*pack_rows)(const rows_to_pack&, std::size_t group, std::size_t begin, std::size_t end);
  void (*gemm)(const gemm_piece&, void* scratch);
  void (*attention)(const attention_piece&, void* scratch);
  void (*rope_scatter)(const rope_row&);
  void (*rms_norm)(const float* x, const float* weight, float* out, std::size_t columns, float epsilon);
  void (*swiglu)(const float* gate, const float* up, float* out, std::size_t count);
  /// Runs `count` multiply instructions of the kind that gemm uses, on registers alone (to measure their
  /// rate). Each does `probe_products` products.
  float (*probe)(std::size_t count);
  std::size_t probe_products;
};

/// Rows of a call are split into `count` groups of `size`, the last one shorter.
struct row_groups {
  std::size_t count = 0;
  std::size_t size = 0;
};

extern const kernel_table plain_kernels;
#if defined(__x86_64__)
extern const kernel_table avx2_kernels;
extern const kernel_table avx512_kernels;
extern const kernel_table avx512_bf16_kernels;
#endif

}  // namespace yolk::gpu::host
