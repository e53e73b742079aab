#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/bfloat16.hpp"
#include "core/random.hpp"
#include "gpu/device.hpp"

/// Every kernel once more, in plain loops and double precision, as slow and as obvious as possible.
namespace yolk::gpu::reference {

/// Uniform in [-scale, scale), rounded to bf16.
inline float random_bfloat(core::random_source& random, float scale = 1.0f) {
  const double unit = static_cast<double>(random() >> 11) * 0x1.0p-53;
  return core::to_float(core::to_bfloat16(static_cast<float>((2.0 * unit - 1.0) * scale)));
}

inline std::vector<float> random_bfloats(core::random_source& random, std::size_t count, float scale = 1.0f) {
  std::vector<float> values(count);
  for (float& value : values) value = random_bfloat(random, scale);
  return values;
}

struct sum {
  double value = 0.0;
  double magnitude = 0.0;  ///< of the terms: what rounding errors are measured against
};

inline sum dot(const float* x, const float* w, std::size_t count) {
  sum s;
  for (std::size_t i = 0; i < count; ++i) {
    const double product = static_cast<double>(x[i]) * w[i];
    s.value += product;
    s.magnitude += std::abs(product);
  }
  return s;
}

inline std::vector<double> rms_norm(const float* x, const float* weight, std::size_t columns,
                                    double epsilon) {
  double squares = 0.0;
  for (std::size_t i = 0; i < columns; ++i) squares += static_cast<double>(x[i]) * x[i];
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(columns) + epsilon);
  std::vector<double> out(columns);
  for (std::size_t i = 0; i < columns; ++i) out[i] = x[i] * scale * weight[i];
  return out;
}

inline double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

inline std::vector<double> rotate(const std::vector<double>& head, const float* cosine, const float* sine) {
  const std::size_t half = head.size() / 2;
  std::vector<double> out(head.size());
  for (std::size_t d = 0; d < half; ++d) {
    out[d] = head[d] * cosine[d] - head[d + half] * sine[d];
    out[d + half] = head[d + half] * cosine[d] + head[d] * sine[d];
  }
  return out;
}

/// A token's K or V vector of one head in paged memory.
inline std::uint16_t* kv_vector(const kv_layer_view& kv, std::uint32_t head, bool value,
                                std::span<const core::block_index> blocks, std::size_t position) {
  const std::size_t segment = std::size_t{kv.block_tokens} * kv.head_dim * 2;
  std::byte* at = kv.pool + blocks[position / kv.block_tokens] * kv.block_bytes + kv.layer_offset_bytes +
                  (head * 2 + (value ? 1 : 0)) * segment + position % kv.block_tokens * kv.head_dim * 2;
  return reinterpret_cast<std::uint16_t*>(at);
}

/// One row, one query head, over positions 0 .. position.
inline std::vector<double> attention(const float* q, const kv_layer_view& kv, std::uint32_t kv_head,
                                     std::span<const core::block_index> blocks, std::size_t position,
                                     double scale) {
  std::vector<double> scores(position + 1);
  double best = -INFINITY;
  for (std::size_t p = 0; p <= position; ++p) {
    const std::uint16_t* k = kv_vector(kv, kv_head, false, blocks, p);
    for (std::size_t d = 0; d < kv.head_dim; ++d)
      scores[p] += static_cast<double>(q[d]) * core::to_float({k[d]});
    scores[p] *= scale;
    best = std::max(best, scores[p]);
  }
  double total = 0.0;
  std::vector<double> out(kv.head_dim);
  for (std::size_t p = 0; p <= position; ++p) {
    const double weight = std::exp(scores[p] - best);
    const std::uint16_t* v = kv_vector(kv, kv_head, true, blocks, p);
    for (std::size_t d = 0; d < kv.head_dim; ++d) out[d] += weight * core::to_float({v[d]});
    total += weight;
  }
  for (double& value : out) value /= total;
  return out;
}

}  // namespace yolk::gpu::reference
