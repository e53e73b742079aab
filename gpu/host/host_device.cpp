#include "gpu/host/host_device.hpp"

#include <algorithm>

#include "core/invariant.hpp"
#include "gpu/host/packed_matrix.hpp"

namespace yolk::gpu::host {

namespace {

/// Elements of row-wise work in one piece: some microseconds, so that a fork is worth it.
constexpr std::size_t piece_elements = std::size_t{16} << 10;
/// Activations packed by one piece.
constexpr std::size_t pack_elements = std::size_t{8} << 10;
/// Products of a GEMM piece at most: about 2 ms on one core at 50 G products a second. The longest piece is
/// what a waiting decode step waits for beyond its share (see turn_order).
constexpr std::size_t piece_products = std::size_t{100} << 20;
/// Sharing a widened key among fewer (row, query head) pairs than this costs more than it helps.
constexpr std::size_t min_attention_pairs = 16;
/// Pieces for each thread at least, where the shape allows, so that none waits long for the last one.
constexpr std::size_t pieces_per_thread = 4;

row_groups split_rows(std::size_t row_count, std::size_t max_rows) {
  row_groups groups;
  groups.count = (row_count + max_rows - 1) / max_rows;
  groups.size = groups.count == 0 ? 0 : (row_count + groups.count - 1) / groups.count;
  return groups;
}

std::size_t divide_up(std::size_t value, std::size_t by) {
  return (value + by - 1) / by;
}

void check_layer(const kv_layer_view& kv, std::uint32_t query_head_count) {
  YOLK_INVARIANT(kv.kv_head_count > 0 && query_head_count % kv.kv_head_count == 0, query_head_count,
                 kv.kv_head_count);
  YOLK_INVARIANT(kv.head_dim > 0 && kv.head_dim % 2 == 0 && kv.head_dim <= max_head_dim, kv.head_dim);
  YOLK_INVARIANT(kv.block_tokens > 0, kv.block_tokens);
}

void check_span(const row_span& span, const kv_layer_view& kv) {
  const std::size_t last = std::size_t{span.first_position} + span.row_count;
  YOLK_INVARIANT(last <= span.blocks.size() * kv.block_tokens, last, span.blocks.size(), kv.block_tokens);
}

std::size_t segment_bytes(const kv_layer_view& kv) {
  return std::size_t{kv.block_tokens} * kv.head_dim * 2;
}

/// Rows of one attention tile, all query heads of a KV head (or max_attention_pairs of them) each: as many as
/// share a widened key, fewer where the context is so long that the piece would hold up a decode step.
std::size_t tile_rows(const kv_layer_view& kv, std::size_t heads, std::size_t context) {
  const std::size_t pairs = piece_products / (2 * context * kv.head_dim);
  return std::max<std::size_t>(1, std::clamp(pairs, min_attention_pairs, max_attention_pairs) / heads);
}

}  // namespace

host_device::~host_device() {
  if (turn_) end_step();
}

void host_device::begin_step(step_class kind) {
  YOLK_INVARIANT(!turn_);
  turn_ = cores_->turnstile.begin(kind);
}

void host_device::end_step() {
  YOLK_INVARIANT(turn_);
  cores_->turnstile.end(*turn_);
  turn_.reset();
}

template <class Work>
void host_device::for_rows(std::size_t row_count, std::size_t row_cost, const Work& work) {
  YOLK_INVARIANT(turn_);
  cores_->turnstile.pause(*turn_);
  const std::size_t rows_per_piece =
      std::max<std::size_t>(1, piece_elements / std::max<std::size_t>(1, row_cost));
  cores_->for_pieces(*turn_, divide_up(row_count, rows_per_piece), [&](std::size_t piece, void*) {
    const std::size_t end = std::min(row_count, (piece + 1) * rows_per_piece);
    for (std::size_t row = piece * rows_per_piece; row < end; ++row) work(row);
  });
}

void host_device::embed(const embed_args& args) {
  const auto& table = static_cast<const packed_matrix&>(*args.table);
  // A row lies scattered over cache lines, so it costs several times its size.
  for_rows(args.tokens.size(), table.columns() * 8,
           [&](std::size_t row) { table.unpack_row(args.tokens[row], args.out + row * table.columns()); });
}

void host_device::rms_norm(const rms_norm_args& args) {
  for_rows(args.row_count, args.columns, [&](std::size_t row) {
    cores_->kernels.rms_norm(args.x + row * args.x_stride, args.weight, args.out + row * args.out_stride,
                             args.columns, args.epsilon);
  });
}

void host_device::swiglu(const swiglu_args& args) {
  for_rows(args.row_count, args.inner * 4, [&](std::size_t row) {
    const float* gate = args.gate_up + row * args.gate_up_stride;
    cores_->kernels.swiglu(gate, gate + args.inner, args.out + row * args.out_stride, args.inner);
  });
}

const void* host_device::pack_rows(const gemm_args& args, const row_groups& groups) {
  const kernel_table& kernels = cores_->kernels;
  const std::size_t columns = args.weights->columns();
  // A single row of floats is packed as it lies.
  if (args.row_count == 1 && columns % 2 == 0 && kernels.packed_bytes == sizeof(float)) return args.x;
  const std::size_t bytes = args.row_count * (columns + columns % 2) * kernels.packed_bytes;
  if (packed_rows_.bytes() < bytes) {
    packed_rows_ = {};
    packed_rows_ = aligned_buffer::allocate(bytes + bytes / 2);
    YOLK_INVARIANT(packed_rows_.data() != nullptr, bytes);
  }
  const rows_to_pack rows = {.x = args.x,
                             .x_stride = args.x_stride,
                             .row_count = args.row_count,
                             .input_count = columns,
                             .out = packed_rows_.data()};
  // Cut along the inputs too: a single group of a decode step would keep all but one thread waiting.
  const std::size_t inputs = std::max<std::size_t>(2, pack_elements / groups.size / 2 * 2);
  const std::size_t parts = divide_up(columns, inputs);
  cores_->for_pieces(*turn_, groups.count * parts, [&](std::size_t piece, void*) {
    const std::size_t begin = piece % parts * inputs;
    kernels.pack_rows(rows, piece / parts, begin, std::min(columns, begin + inputs));
  });
  return packed_rows_.data();
}

void host_device::gemm(const gemm_args& args) {
  YOLK_INVARIANT(turn_);
  if (args.row_count == 0) return;
  const auto& weights = static_cast<const packed_matrix&>(*args.weights);
  const row_groups groups = split_rows(args.row_count, cores_->kernels.max_group_rows);
  gemm_piece whole = {.rows = pack_rows(args, groups),
                      .panels = weights.words(),
                      .bias = args.bias,
                      .y = args.y,
                      .y_stride = args.y_stride,
                      .row_count = args.row_count,
                      .output_count = weights.rows(),
                      .pair_count = weights.pair_count(),
                      .accumulate = args.accumulate};
  const std::size_t panels = weights.panel_count();
  const std::size_t most_rows =
      std::min(max_piece_rows, piece_products / (panel_columns * weights.pair_count() * 2));
  std::size_t bands = divide_up(groups.count, std::max<std::size_t>(1, most_rows / groups.size));
  const std::size_t wanted = pieces_per_thread * cores_->team.thread_count();
  bands = std::min(groups.count, std::max(bands, divide_up(wanted, panels)));
  const std::size_t band_groups = divide_up(groups.count, bands);
  bands = divide_up(groups.count, band_groups);
  cores_->for_pieces(*turn_, panels * bands, [&](std::size_t index, void* scratch) {
    gemm_piece piece = whole;
    piece.panel = index % panels;
    piece.group_begin = index / panels * band_groups;
    piece.group_end = std::min(groups.count, piece.group_begin + band_groups);
    cores_->kernels.gemm(piece, scratch);
  });
}

void host_device::rope_scatter(const rope_scatter_args& args) {
  check_layer(args.kv, args.query_head_count);
  rows_.clear();
  for (std::uint32_t s = 0; s < args.spans.size(); ++s) {
    check_span(args.spans[s], args.kv);
    for (std::uint32_t i = 0; i < args.spans[s].row_count; ++i) rows_.push_back({.span = s, .index = i});
  }
  const std::size_t head_dim = args.kv.head_dim;
  const std::size_t heads = args.query_head_count + 2 * std::size_t{args.kv.kv_head_count};
  for_rows(rows_.size(), heads * head_dim, [&](std::size_t i) {
    const row_span& span = args.spans[rows_[i].span];
    const std::size_t row = std::size_t{span.first_row} + rows_[i].index;
    const std::size_t position = std::size_t{span.first_position} + rows_[i].index;
    const std::size_t block = span.blocks[position / args.kv.block_tokens];
    std::byte* slot = args.kv.pool + block * args.kv.block_bytes + args.kv.layer_offset_bytes +
                      position % args.kv.block_tokens * head_dim * 2;
    cores_->kernels.rope_scatter({.qkv = args.qkv + row * args.qkv_stride,
                                  .q = args.q + row * args.query_head_count * head_dim,
                                  .query_head_count = args.query_head_count,
                                  .kv_head_count = args.kv.kv_head_count,
                                  .head_dim = head_dim,
                                  .q_norm = args.q_norm,
                                  .k_norm = args.k_norm,
                                  .norm_epsilon = args.norm_epsilon,
                                  .cosine = args.cosine + position * (head_dim / 2),
                                  .sine = args.sine + position * (head_dim / 2),
                                  .slot = reinterpret_cast<unsigned char*>(slot),
                                  .segment_bytes = segment_bytes(args.kv)});
  });
}

/// The longest contexts first, so that no thread begins a long tile when the others are done.
void host_device::list_attention_tiles(const paged_attention_args& args) {
  const auto heads =
      std::min<std::size_t>(max_attention_pairs, args.query_head_count / args.kv.kv_head_count);
  rows_.clear();
  for (std::uint32_t s = 0; s < args.spans.size(); ++s) {
    const row_span& span = args.spans[s];
    check_span(span, args.kv);
    const std::size_t context = std::size_t{span.first_position} + span.row_count;
    const auto step =
        static_cast<std::uint32_t>(tile_rows(args.kv, heads, std::max<std::size_t>(1, context)));
    for (std::uint32_t i = 0; i < span.row_count; i += step) {
      rows_.push_back({.span = s, .index = i, .count = std::min(step, span.row_count - i)});
    }
  }
  std::sort(rows_.begin(), rows_.end(), [&](const span_rows& a, const span_rows& b) {
    return args.spans[a.span].first_position + a.index > args.spans[b.span].first_position + b.index;
  });
}

void host_device::paged_attention(const paged_attention_args& args) {
  YOLK_INVARIANT(turn_);
  check_layer(args.kv, args.query_head_count);
  cores_->turnstile.pause(*turn_);
  list_attention_tiles(args);
  const std::size_t group = args.query_head_count / args.kv.kv_head_count;
  const std::size_t parts = divide_up(group, max_attention_pairs);
  cores_->for_pieces(*turn_, rows_.size() * args.kv.kv_head_count * parts,
                     [&](std::size_t piece, void* scratch) { attention_piece_of(args, piece, scratch); });
}

void host_device::attention_piece_of(const paged_attention_args& args, std::size_t piece,
                                     void* scratch) const {
  const kv_layer_view& kv = args.kv;
  const std::size_t group = args.query_head_count / kv.kv_head_count;
  const std::size_t parts = divide_up(group, max_attention_pairs);
  const span_rows& tile = rows_[piece / (kv.kv_head_count * parts)];
  const std::size_t kv_head = piece / parts % kv.kv_head_count;
  const std::size_t first_head = piece % parts * max_attention_pairs;
  const std::size_t heads = std::min(max_attention_pairs, group - first_head);
  const row_span& span = args.spans[tile.span];
  const std::size_t row_stride = std::size_t{args.query_head_count} * kv.head_dim;
  const std::size_t offset =
      (std::size_t{span.first_row} + tile.index) * row_stride + (kv_head * group + first_head) * kv.head_dim;
  const auto* layer = reinterpret_cast<const unsigned char*>(kv.pool) + kv.layer_offset_bytes;
  const unsigned char* keys = layer + kv_head * 2 * segment_bytes(kv);
  cores_->kernels.attention({.q = args.q + offset,
                             .out = args.out + offset,
                             .row_stride = row_stride,
                             .row_count = tile.count,
                             .head_count = heads,
                             .head_dim = kv.head_dim,
                             .scale = args.scale,
                             .keys = keys,
                             .values = keys + segment_bytes(kv),
                             .block_bytes = kv.block_bytes,
                             .block_tokens = kv.block_tokens,
                             .blocks = span.blocks.data(),
                             .first_position = std::size_t{span.first_position} + tile.index},
                            scratch);
}

}  // namespace yolk::gpu::host
