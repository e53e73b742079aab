#include "model/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/invariant.hpp"

namespace yolk::model {

namespace {

constexpr std::size_t alignment_bytes = 64;

}  // namespace

transformer::buffer transformer::allocate(std::size_t float_count) {
  const std::size_t bytes =
      (float_count * sizeof(float) + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  auto* memory = static_cast<float*>(std::aligned_alloc(alignment_bytes, bytes));
  YOLK_INVARIANT(memory != nullptr, bytes);
  return buffer(memory);
}

transformer::transformer(transformer_options options, gpu::device& device)
    : options_(std::move(options)),
      device_(device),
      hidden_(options_.config.hidden_size),
      inner_(options_.config.intermediate_size),
      q_width_(std::size_t{options_.config.query_head_count} * options_.config.head_dim),
      qkv_width_(q_width_ + std::size_t{2} * options_.config.kv_head_count * options_.config.head_dim) {
  YOLK_INVARIANT(options_.max_rows > 0 && options_.kv_pool != nullptr && options_.weights != nullptr,
                 options_.max_rows);
  YOLK_INVARIANT(options_.layout == options_.config.kv_layout(options_.layout.block_tokens));
  const std::size_t rows = options_.max_rows;
  residual_ = allocate(rows * hidden_);
  normed_ = allocate(rows * hidden_);
  qkv_ = allocate(rows * qkv_width_);
  q_ = allocate(rows * q_width_);
  attention_ = allocate(rows * q_width_);
  gate_up_ = allocate(rows * 2 * inner_);
  activated_ = allocate(rows * inner_);
  logits_ = allocate(std::min<std::size_t>(rows, logit_rows) * options_.config.vocabulary_size);
}

gpu::kv_layer_view transformer::kv_view(std::uint32_t layer) const {
  const kvcache::segment_layout& layout = options_.layout;
  return {.pool = options_.kv_pool,
          .block_bytes = layout.block_bytes(),
          .layer_offset_bytes = layout.layer_offset(layer),
          .kv_head_count = layout.kv_head_count,
          .head_dim = layout.head_dim,
          .block_tokens = layout.block_tokens};
}

void transformer::lay_out_rows(std::span<const step_slice> slices) {
  tokens_.clear();
  spans_.clear();
  last_rows_.clear();
  wanted_.clear();
  for (std::size_t index = 0; index < slices.size(); ++index) {
    const step_slice& slice = slices[index];
    const auto count = static_cast<std::uint32_t>(slice.tokens.size());
    const std::uint64_t end = std::uint64_t{slice.first_position} + count;
    YOLK_INVARIANT(count > 0 && end <= options_.config.context_length, index, count, slice.first_position,
                   options_.config.context_length);
    YOLK_INVARIANT(slice.blocks.size() >= options_.layout.blocks_for(static_cast<std::uint32_t>(end)), index,
                   end, slice.blocks.size());
    for (const core::token_id token : slice.tokens)
      YOLK_INVARIANT(token < options_.config.vocabulary_size, index, token, options_.config.vocabulary_size);
    const auto first_row = static_cast<std::uint32_t>(tokens_.size());
    tokens_.insert(tokens_.end(), slice.tokens.begin(), slice.tokens.end());
    spans_.push_back({first_row, count, slice.first_position, slice.blocks});
    if (slice.samplers.empty()) continue;
    wanted_.push_back(static_cast<std::uint32_t>(index));
    last_rows_.push_back({first_row + count - 1, 1, static_cast<std::uint32_t>(end - 1), slice.blocks});
  }
  YOLK_INVARIANT(tokens_.size() <= options_.max_rows, tokens_.size(), options_.max_rows);
  row_count_ = tokens_.size();
}

void transformer::compute(std::span<const step_slice> slices, const step_executor::layer_callback& on_layer) {
  lay_out_rows(slices);
  if (row_count_ == 0) return;
  device_.embed({.table = options_.weights->embedding.get(), .tokens = tokens_, .out = residual_.get()});
  for (std::uint32_t index = 0; index < options_.config.layer_count; ++index) {
    const layer_weights& layer = options_.weights->layers[index];
    const bool last = index + 1 == options_.config.layer_count;
    // Behind the last layer's KV only the rows whose logits are wanted are still of use.
    const std::span<const gpu::row_span> readers = last ? last_rows_ : spans_;
    write_kv(layer, index);
    if (on_layer) on_layer(index);
    if (readers.empty()) return;
    attend(index, readers);
    if (last) keep_wanted_rows();
    feed_forward(layer);
  }
}

void transformer::normalise(const std::vector<float>& weight, const float* from, std::size_t rows) {
  device_.rms_norm({.x = from,
                    .x_stride = hidden_,
                    .weight = weight.data(),
                    .out = normed_.get(),
                    .out_stride = hidden_,
                    .row_count = rows,
                    .columns = hidden_,
                    .epsilon = options_.config.rms_norm_epsilon});
}

/// Projects all rows and writes their K and V; afterwards the layer's KV of this step is complete.
void transformer::write_kv(const layer_weights& layer, std::uint32_t index) {
  normalise(layer.attention_norm, residual_.get(), row_count_);
  device_.gemm({.x = normed_.get(),
                .x_stride = hidden_,
                .weights = layer.qkv.get(),
                .bias = layer.qkv_bias.empty() ? nullptr : layer.qkv_bias.data(),
                .y = qkv_.get(),
                .y_stride = qkv_width_,
                .row_count = row_count_});
  device_.rope_scatter({.qkv = qkv_.get(),
                        .qkv_stride = qkv_width_,
                        .q = q_.get(),
                        .query_head_count = options_.config.query_head_count,
                        .q_norm = layer.q_norm.empty() ? nullptr : layer.q_norm.data(),
                        .k_norm = layer.k_norm.empty() ? nullptr : layer.k_norm.data(),
                        .norm_epsilon = options_.config.rms_norm_epsilon,
                        .cosine = options_.weights->rope.cosine.data(),
                        .sine = options_.weights->rope.sine.data(),
                        .kv = kv_view(index),
                        .spans = spans_});
}

void transformer::attend(std::uint32_t index, std::span<const gpu::row_span> readers) {
  device_.paged_attention({.q = q_.get(),
                           .out = attention_.get(),
                           .query_head_count = options_.config.query_head_count,
                           .scale = 1.0f / std::sqrt(static_cast<float>(options_.config.head_dim)),
                           .kv = kv_view(index),
                           .spans = readers});
}

/// Moves the rows that last_rows_ names to the front; rows only move down, in ascending order, so none is
/// overwritten before it was moved.
void transformer::keep_wanted_rows() {
  for (std::size_t i = 0; i < last_rows_.size(); ++i) {
    const std::size_t row = last_rows_[i].first_row;
    if (row == i) continue;
    std::memcpy(attention_.get() + i * q_width_, attention_.get() + row * q_width_, q_width_ * sizeof(float));
    std::memcpy(residual_.get() + i * hidden_, residual_.get() + row * hidden_, hidden_ * sizeof(float));
  }
  row_count_ = last_rows_.size();
}

/// What follows attention: its output projection, then the gated feed-forward network, each added to the
/// residual.
void transformer::feed_forward(const layer_weights& layer) {
  device_.gemm({.x = attention_.get(),
                .x_stride = q_width_,
                .weights = layer.output.get(),
                .y = residual_.get(),
                .y_stride = hidden_,
                .row_count = row_count_,
                .accumulate = true});
  normalise(layer.mlp_norm, residual_.get(), row_count_);
  device_.gemm({.x = normed_.get(),
                .x_stride = hidden_,
                .weights = layer.gate_up.get(),
                .y = gate_up_.get(),
                .y_stride = 2 * inner_,
                .row_count = row_count_});
  device_.swiglu({.gate_up = gate_up_.get(),
                  .gate_up_stride = 2 * inner_,
                  .out = activated_.get(),
                  .out_stride = inner_,
                  .row_count = row_count_,
                  .inner = inner_});
  device_.gemm({.x = activated_.get(),
                .x_stride = inner_,
                .weights = layer.down.get(),
                .y = residual_.get(),
                .y_stride = hidden_,
                .row_count = row_count_,
                .accumulate = true});
}

std::span<float> transformer::logits(std::size_t first, std::size_t count) {
  const std::size_t vocabulary = options_.config.vocabulary_size;
  YOLK_INVARIANT(count <= logit_rows && first + count <= wanted_.size(), first, count, wanted_.size());
  normalise(options_.weights->final_norm, residual_.get() + first * hidden_, count);
  device_.gemm({.x = normed_.get(),
                .x_stride = hidden_,
                .weights = options_.weights->head.get(),
                .y = logits_.get(),
                .y_stride = vocabulary,
                .row_count = count});
  return {logits_.get(), count * vocabulary};
}

}  // namespace yolk::model
