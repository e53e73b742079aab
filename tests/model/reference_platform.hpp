#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/bfloat16.hpp"
#include "gpu/device.hpp"

/// A platform in plain loops that accumulate in double: what the contracts of gpu/device.hpp say and nothing
/// more. It is written apart from gpu/host, whose results are compared with it.
namespace yolk::model::testing {

inline float stored_element(const gpu::matrix_view& view, std::size_t index) {
  if (view.type == gpu::dtype::f32) return static_cast<const float*>(view.data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(view.data)[index];
  if (view.type == gpu::dtype::bf16) return core::to_float({bits});
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24)
                                         : std::ldexp(1024 + fraction, exponent - 25);  // finite ones only
  return static_cast<float>((bits >> 15) != 0 ? -magnitude : magnitude);
}

struct reference_matrix final : gpu::weight_matrix {
  std::size_t row_count = 0;
  std::size_t column_count = 0;
  std::vector<float> values;  ///< rounded to bf16
  [[nodiscard]] std::size_t rows() const override { return row_count; }
  [[nodiscard]] std::size_t columns() const override { return column_count; }
  [[nodiscard]] std::size_t bytes() const override { return values.size() * 2; }
};

class reference_device final : public gpu::device {
 public:
  [[nodiscard]] std::string_view kind() const override { return "reference"; }
  void begin_step(gpu::step_class) override {
    YOLK_INVARIANT(!open_);
    open_ = true;
  }
  void end_step() override {
    YOLK_INVARIANT(open_);
    open_ = false;
  }

  void embed(const gpu::embed_args& args) override {
    YOLK_INVARIANT(open_);
    const auto& table = matrix(args.table);
    for (std::size_t row = 0; row < args.tokens.size(); ++row)
      for (std::size_t i = 0; i < table.column_count; ++i)
        args.out[row * table.column_count + i] = table.values[args.tokens[row] * table.column_count + i];
  }

  void rms_norm(const gpu::rms_norm_args& args) override {
    YOLK_INVARIANT(open_);
    for (std::size_t row = 0; row < args.row_count; ++row)
      normalise(args.x + row * args.x_stride, args.weight, args.out + row * args.out_stride, args.columns,
                args.epsilon);
  }

  void gemm(const gpu::gemm_args& args) override {
    YOLK_INVARIANT(open_);
    const auto& weights = matrix(args.weights);
    for (std::size_t row = 0; row < args.row_count; ++row) {
      for (std::size_t n = 0; n < weights.row_count; ++n) {
        double sum = args.bias == nullptr ? 0.0 : double{args.bias[n]};
        for (std::size_t k = 0; k < weights.column_count; ++k)
          sum += double{args.x[row * args.x_stride + k]} * weights.values[n * weights.column_count + k];
        float& y = args.y[row * args.y_stride + n];
        y = static_cast<float>(args.accumulate ? y + sum : sum);
      }
    }
  }

  void rope_scatter(const gpu::rope_scatter_args& args) override {
    YOLK_INVARIANT(open_);
    const std::size_t dim = args.kv.head_dim;
    std::vector<float> head(dim);
    for (const gpu::row_span& span : args.spans) {
      for (std::uint32_t i = 0; i < span.row_count; ++i) {
        const std::size_t row = span.first_row + i;
        const std::uint32_t position = span.first_position + i;
        const float* qkv = args.qkv + row * args.qkv_stride;
        for (std::uint32_t h = 0; h < args.query_head_count; ++h, qkv += dim) {
          rotate(args, position, qkv, args.q_norm, head);
          std::memcpy(args.q + (row * args.query_head_count + h) * dim, head.data(), dim * sizeof(float));
        }
        for (std::uint32_t h = 0; h < args.kv.kv_head_count; ++h, qkv += dim) {
          rotate(args, position, qkv, args.k_norm, head);
          store(segment_row(args.kv, span, position, h, 0), head.data(), dim);
        }
        for (std::uint32_t h = 0; h < args.kv.kv_head_count; ++h, qkv += dim)
          store(segment_row(args.kv, span, position, h, 1), qkv, dim);
      }
    }
  }

  void paged_attention(const gpu::paged_attention_args& args) override {
    YOLK_INVARIANT(open_);
    for (const gpu::row_span& span : args.spans)
      for (std::uint32_t i = 0; i < span.row_count; ++i)
        for (std::uint32_t h = 0; h < args.query_head_count; ++h) attend(args, span, i, h);
  }

  void swiglu(const gpu::swiglu_args& args) override {
    YOLK_INVARIANT(open_);
    for (std::size_t row = 0; row < args.row_count; ++row) {
      const float* gate = args.gate_up + row * args.gate_up_stride;
      for (std::size_t i = 0; i < args.inner; ++i)
        args.out[row * args.out_stride + i] =
            static_cast<float>(gate[i] / (1 + std::exp(-double{gate[i]})) * gate[args.inner + i]);
    }
  }

 private:
  static const reference_matrix& matrix(const gpu::weight_matrix* weights) {
    return *static_cast<const reference_matrix*>(weights);
  }

  static void normalise(const float* x, const float* weight, float* out, std::size_t count, float epsilon) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += double{x[i]} * x[i];
    const double scale = 1 / std::sqrt(sum / static_cast<double>(count) + epsilon);
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(x[i] * scale * weight[i]);
  }

  static void rotate(const gpu::rope_scatter_args& args, std::uint32_t position, const float* x,
                     const float* norm, std::vector<float>& out) {
    const std::size_t half = out.size() / 2;
    std::vector<float> in(x, x + out.size());
    if (norm != nullptr) normalise(x, norm, in.data(), in.size(), args.norm_epsilon);
    for (std::size_t d = 0; d < half; ++d) {
      const double cosine = args.cosine[position * half + d];
      const double sine = args.sine[position * half + d];
      out[d] = static_cast<float>(in[d] * cosine - in[d + half] * sine);
      out[d + half] = static_cast<float>(in[d + half] * cosine + in[d] * sine);
    }
  }

  static std::byte* segment_row(const gpu::kv_layer_view& kv, const gpu::row_span& span,
                                std::uint32_t position, std::uint32_t head, std::uint32_t part) {
    const std::size_t segment_bytes = std::size_t{kv.block_tokens} * kv.head_dim * 2;
    return kv.pool + span.blocks[position / kv.block_tokens] * kv.block_bytes + kv.layer_offset_bytes +
           (head * 2 + part) * segment_bytes + std::size_t{position % kv.block_tokens} * kv.head_dim * 2;
  }

  static void store(std::byte* to, const float* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const core::bfloat16 value = core::to_bfloat16(from[i]);
      std::memcpy(to + i * sizeof value, &value, sizeof value);
    }
  }

  static double kv_element(const std::byte* row, std::size_t index) {
    core::bfloat16 value;
    std::memcpy(&value, row + index * sizeof value, sizeof value);
    return core::to_float(value);
  }

  static void attend(const gpu::paged_attention_args& args, const gpu::row_span& span, std::uint32_t i,
                     std::uint32_t h) {
    const std::size_t dim = args.kv.head_dim;
    const std::uint32_t kv_head = h / (args.query_head_count / args.kv.kv_head_count);
    const std::uint32_t last = span.first_position + i;
    const std::size_t at = (std::size_t{span.first_row + i} * args.query_head_count + h) * dim;
    std::vector<double> scores(last + 1);
    double highest = -INFINITY;
    for (std::uint32_t p = 0; p <= last; ++p) {
      const std::byte* key = segment_row(args.kv, span, p, kv_head, 0);
      double sum = 0;
      for (std::size_t d = 0; d < dim; ++d) sum += args.q[at + d] * kv_element(key, d);
      scores[p] = sum * args.scale;
      highest = std::max(highest, scores[p]);
    }
    std::vector<double> out(dim, 0.0);
    double total = 0;
    for (std::uint32_t p = 0; p <= last; ++p) {
      const double weight = std::exp(scores[p] - highest);
      const std::byte* value = segment_row(args.kv, span, p, kv_head, 1);
      total += weight;
      for (std::size_t d = 0; d < dim; ++d) out[d] += weight * kv_element(value, d);
    }
    for (std::size_t d = 0; d < dim; ++d) args.out[at + d] = static_cast<float>(out[d] / total);
  }

  bool open_ = false;
};

class reference_platform final : public gpu::platform {
 public:
  [[nodiscard]] std::string_view kind() const override { return "reference"; }
  [[nodiscard]] std::string description() const override { return "reference: plain loops in double"; }
  [[nodiscard]] std::string numerics() const override { return "reference"; }
  [[nodiscard]] gpu::result<std::shared_ptr<const gpu::weight_matrix>> pack(
      std::span<const gpu::matrix_view> stacked) override {
    auto out = std::make_shared<reference_matrix>();
    out->column_count = stacked[0].columns;
    for (const gpu::matrix_view& view : stacked) {
      YOLK_INVARIANT(view.columns == out->column_count &&
                     reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.type) == 0);
      out->row_count += view.rows;
      for (std::size_t i = 0; i < view.rows * view.columns; ++i)
        out->values.push_back(core::to_float(core::to_bfloat16(stored_element(view, i))));
    }
    return std::shared_ptr<const gpu::weight_matrix>(std::move(out));
  }
  [[nodiscard]] gpu::result<std::unique_ptr<gpu::device>> create_device() override {
    return std::unique_ptr<gpu::device>(std::make_unique<reference_device>());
  }
};

}  // namespace yolk::model::testing
