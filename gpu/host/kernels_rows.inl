// What works row by row: normalisation, rotation and scatter, SwiGLU. Every reduction over a row has one
// order: four accumulators of sixteen lanes in turn, then (0+1)+(2+3), then the lanes by halves.

namespace {

/// The first `count` (at most 16) floats, the other lanes zero.
inline f16 load_some(const float* from, std::size_t count) {
  if (count >= lane_count) return load(from);
  alignas(64) float lanes[lane_count] = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i] = from[i];
  return load(lanes);
}

inline void store_some(float* to, f16 value, std::size_t count) {
  if (count >= lane_count) {
    store(to, value);
    return;
  }
  alignas(64) float lanes[lane_count];
  store(lanes, value);
  for (std::size_t i = 0; i < count; ++i) to[i] = lanes[i];
}

inline void store_some_bf16(std::uint16_t* to, f16 value, std::size_t count) {
  if (count >= lane_count) {
    store_bf16(to, value);
    return;
  }
  std::uint16_t lanes[lane_count];
  store_bf16(lanes, value);
  for (std::size_t i = 0; i < count; ++i) to[i] = lanes[i];
}

/// e^x by Cody and Waite's reduction and the polynomial of Moshier's Cephes (expf); within 2 ulp, clamped to
/// where the result is a normal number.
inline f16 exponential(f16 x) {
  x = maximum(minimum(x, set1(88.0f)), set1(-87.0f));
  const f16 magic = set1(12582912.0f);
  const f16 shifted = fma(x, set1(1.44269504088896341f), magic);
  const f16 n = shifted - magic;
  f16 r = fma(n, set1(-0.693359375f), x);
  r = fma(n, set1(2.12194440e-4f), r);
  f16 p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = fma(p * r, r, r) + set1(1.0f);
  return p * power_of_two(shifted);
}

/// 2^x for x <= 0 (Cephes, exp2f), clamped to 2^-126.
inline f16 exponential_base_2(f16 x) {
  x = maximum(x, set1(-126.0f));
  const f16 magic = set1(12582912.0f);
  const f16 shifted = x + magic;
  const f16 r = x - (shifted - magic);
  f16 p = set1(1.535336188319500e-4f);
  p = fma(p, r, set1(1.339887440266574e-3f));
  p = fma(p, r, set1(9.618437357674640e-3f));
  p = fma(p, r, set1(5.550332471162809e-2f));
  p = fma(p, r, set1(2.402264791363012e-1f));
  p = fma(p, r, set1(6.931472028550421e-1f));
  p = fma(p, r, set1(1.0f));
  return p * power_of_two(shifted);
}

inline float sum_of_squares(const float* x, std::size_t count) {
  f16 sum[4] = {set1(0.0f), set1(0.0f), set1(0.0f), set1(0.0f)};
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    for (std::size_t v = 0; v < 4; ++v) {
      const f16 value = load(x + i + v * lane_count);
      sum[v] = fma(value, value, sum[v]);
    }
  }
  for (std::size_t v = 0; i < count; i += lane_count, ++v) {
    const f16 value = load_some(x + i, count - i);
    sum[v] = fma(value, value, sum[v]);
  }
  return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

void rms_norm_kernel(const float* x, const float* weight, float* out, std::size_t columns, float epsilon) {
  const float mean = sum_of_squares(x, columns) / static_cast<float>(columns);
  const f16 scale = set1(1.0f / square_root(mean + epsilon));
  for (std::size_t i = 0; i < columns; i += lane_count) {
    const std::size_t left = columns - i;
    store_some(out + i, (load_some(x + i, left) * scale) * load_some(weight + i, left), left);
  }
}

void swiglu_kernel(const float* gate, const float* up, float* out, std::size_t count) {
  const f16 one = set1(1.0f);
  const f16 zero = set1(0.0f);
  for (std::size_t i = 0; i < count; i += lane_count) {
    const f16 g = load_some(gate + i, count - i);
    const f16 silu = g / (one + exponential(zero - g));
    store_some(out + i, silu * load_some(up + i, count - i), count - i);
  }
}

/// Rotates one head into out[head_dim] (pairs d, d + head_dim/2; Su et al. 2021 as Hugging Face lays it out).
inline void rotate_head(const rope_row& r, const float* x, const float* norm, float* out) {
  alignas(64) float normed[max_head_dim];
  if (norm != nullptr) {
    rms_norm_kernel(x, norm, normed, r.head_dim, r.norm_epsilon);
    x = normed;
  }
  const std::size_t half = r.head_dim / 2;
  for (std::size_t d = 0; d < half; d += lane_count) {
    const std::size_t left = half - d;
    const f16 cosine = load_some(r.cosine + d, left);
    const f16 sine = load_some(r.sine + d, left);
    const f16 low = load_some(x + d, left);
    const f16 high = load_some(x + half + d, left);
    store_some(out + d, low * cosine - high * sine, left);
    store_some(out + half + d, high * cosine + low * sine, left);
  }
}

inline void store_head(const float* x, unsigned char* slot, std::size_t head_dim) {
  auto* out = reinterpret_cast<std::uint16_t*>(slot);
  for (std::size_t d = 0; d < head_dim; d += lane_count) {
    store_some_bf16(out + d, load_some(x + d, head_dim - d), head_dim - d);
  }
}

void rope_scatter_kernel(const rope_row& r) {
  const float* x = r.qkv;
  for (std::size_t head = 0; head < r.query_head_count; ++head, x += r.head_dim) {
    rotate_head(r, x, r.q_norm, r.q + head * r.head_dim);
  }
  alignas(64) float rotated[max_head_dim];
  for (std::size_t head = 0; head < r.kv_head_count; ++head, x += r.head_dim) {
    rotate_head(r, x, r.k_norm, rotated);
    store_head(rotated, r.slot + head * 2 * r.segment_bytes, r.head_dim);
  }
  for (std::size_t head = 0; head < r.kv_head_count; ++head, x += r.head_dim) {
    store_head(x, r.slot + (head * 2 + 1) * r.segment_bytes, r.head_dim);
  }
}

}  // namespace
