// Causal attention of up to 64 (row, query head) pairs that share a KV head, over paged KV.
//
// Keys are visited in chunks of 64 positions, counted from position 0. Per chunk and pair (Milakov and
// Gimelshein 2018, Dao et al. 2022): s = q · K with one chain of multiply-adds per key, channels ascending;
// m' = max(m, s); p = 2^(s - m'); l = l · 2^(m - m') + sum p; o = o · 2^(m - m') + p · V with one chain per
// channel, keys ascending; at the end o / l. Scores carry log2(e), folded into q. A key that a pair may not
// see has p = 0 and adds nothing, so a pair's bits do not depend on the other pairs of its piece: a decoded
// row, a chunk and a whole prompt agree.

namespace {

/// Where a piece keeps its working memory; all of it is written before it is read.
struct attention_scratch {
  float* keys;             ///< [head_dim][64]: the chunk's K, widened and turned over
  float* values;           ///< [64][channels]: the chunk's V, widened
  float* queries;          ///< per group [head_dim][rows of the group]
  float* outputs;          ///< [pair][channels]
  float* scores;           ///< [rows of a group][64]
  float* best;             ///< [pair]: m
  float* total;            ///< [pair]: l
  std::uint16_t* nothing;  ///< [channels] zeros, read for slots that hold no token
  std::size_t channels;    ///< head_dim, rounded up to whole vectors
};

inline attention_scratch lay_out(void* memory, const attention_piece& a) {
  attention_scratch s;
  s.channels = (a.head_dim + lane_count - 1) / lane_count * lane_count;
  s.keys = static_cast<float*>(memory);
  s.values = s.keys + s.channels * chunk_tokens;
  s.queries = s.values + chunk_tokens * s.channels;
  s.outputs = s.queries + max_attention_pairs * s.channels;
  s.scores = s.outputs + max_attention_pairs * s.channels;
  s.best = s.scores + max_rows * chunk_tokens;
  s.total = s.best + max_attention_pairs;
  s.nothing = reinterpret_cast<std::uint16_t*>(s.total + max_attention_pairs);
  return s;
}
static_assert((4 * 64 * max_head_dim + 64 * max_rows + 2 * 64) * sizeof(float) + 2 * max_head_dim <=
              scratch_bytes);

inline const std::uint16_t* token_vector(const unsigned char* segments, const attention_piece& a,
                                         std::size_t position) {
  const std::size_t block = a.blocks[position / a.block_tokens];
  return reinterpret_cast<const std::uint16_t*>(segments + block * a.block_bytes) +
         position % a.block_tokens * a.head_dim;
}

inline void prefetch_vector(const std::uint16_t* from, std::size_t channels) {
  for (std::size_t c = 0; c < channels; c += 32) prefetch(from + c);
}

/// Widens a chunk's K and V. Only the first `valid` slots are read: what lies beyond may be another
/// sequence's, NaN or unmapped, and counts as zero. Meanwhile the chunk after it is fetched.
inline void widen_chunk(const attention_piece& a, const attention_scratch& s, std::size_t first,
                        std::size_t valid, std::size_t position_end) {
  const std::size_t whole = a.head_dim / lane_count * lane_count;
  for (std::size_t t = 0; t < chunk_tokens; t += 8) {
    const std::uint16_t* keys[8];
    for (std::size_t i = 0; i < 8; ++i) {
      keys[i] = t + i < valid ? token_vector(a.keys, a, first + t + i) : s.nothing;
      const std::uint16_t* v = t + i < valid ? token_vector(a.values, a, first + t + i) : s.nothing;
      float* out = s.values + (t + i) * s.channels;
      for (std::size_t c = 0; c < whole; c += lane_count) store(out + c, load_bf16(v + c));
      for (std::size_t c = whole; c < a.head_dim; ++c) {
        out[c] = __builtin_bit_cast(float, std::uint32_t{v[c]} << 16);
      }
      const std::size_t next = first + chunk_tokens + t + i;
      if (next < position_end) {
        prefetch_vector(token_vector(a.keys, a, next), a.head_dim);
        prefetch_vector(token_vector(a.values, a, next), a.head_dim);
      }
    }
    for (std::size_t c = 0; c < whole; c += lane_count) {
      const std::uint16_t* at[8];
      for (std::size_t i = 0; i < 8; ++i) at[i] = keys[i] + c;
      transpose_8x16(at, s.keys + c * chunk_tokens + t);
    }
    for (std::size_t c = whole; c < a.head_dim; ++c) {
      for (std::size_t i = 0; i < 8; ++i) {
        s.keys[c * chunk_tokens + t + i] = __builtin_bit_cast(float, std::uint32_t{keys[i][c]} << 16);
      }
    }
  }
}

/// One pair's softmax over a chunk of which it sees the first `seen` keys: scores become weights, m and l
/// move on, and what the sums so far must be scaled with comes back.
inline float softmax_chunk(float* scores, std::size_t seen, float& best, float& total) {
  constexpr std::size_t vectors = chunk_tokens / lane_count;
  f16 s[vectors];
  f16 most = set1(best);
  for (std::size_t v = 0; v < vectors; ++v) {
    const int left = static_cast<int>(seen) - static_cast<int>(v * lane_count);
    s[v] = first_lanes(load(scores + v * lane_count), set1(-3.0e38f), left);
    most = maximum(s[v], most);
  }
  const float new_best = max_lanes(most);
  f16 sum[vectors];
  for (std::size_t v = 0; v < vectors; ++v) {
    const int left = static_cast<int>(seen) - static_cast<int>(v * lane_count);
    sum[v] = first_lanes(exponential_base_2(s[v] - set1(new_best)), set1(0.0f), left);
    store(scores + v * lane_count, sum[v]);
  }
  float scale = 1.0f;
  if (new_best != best) {
    alignas(64) float lanes[lane_count];
    store(lanes, exponential_base_2(set1(best - new_best)));
    scale = lanes[0];
  }
  total = total * scale + sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
  best = new_best;
  return scale;
}

/// One group of pairs against one chunk.
template <int Rows>
inline void attend_group(const attention_piece& a, const attention_scratch& s, std::size_t first_pair,
                         std::size_t chunk, std::size_t valid) {
  constexpr int vectors = tile_vectors<Rows>();
  const float_step<0> score = {s.queries + first_pair * a.head_dim, s.keys, chunk_tokens};
  for (std::size_t v = 0; v < chunk_tokens / lane_count; v += vectors) {
    float_step<0> part = score;
    part.b += v * lane_count;
    run_tile<Rows, vectors>(part, a.head_dim, s.scores + v * lane_count, chunk_tokens, false);
  }
  for (std::size_t row = 0; row < Rows; ++row) {
    const std::size_t pair = first_pair + row;
    const std::size_t end = a.first_position + pair / a.head_count + 1;
    const std::size_t seen = end <= chunk ? 0 : end - chunk < chunk_tokens ? end - chunk : chunk_tokens;
    const float scale = softmax_chunk(s.scores + row * chunk_tokens, seen, s.best[pair], s.total[pair]);
    if (scale == 1.0f) continue;
    float* out = s.outputs + pair * s.channels;
    for (std::size_t c = 0; c < s.channels; c += lane_count) store(out + c, load(out + c) * set1(scale));
  }
  std::size_t c = 0;
  for (; c + vectors * lane_count <= s.channels; c += vectors * lane_count) {
    const float_step<chunk_tokens> weigh = {s.scores, s.values + c, s.channels};
    run_tile<Rows, vectors>(weigh, valid, s.outputs + first_pair * s.channels + c, s.channels, true);
  }
  for (; c < s.channels; c += lane_count) {
    const float_step<chunk_tokens> weigh = {s.scores, s.values + c, s.channels};
    run_tile<Rows, 1>(weigh, valid, s.outputs + first_pair * s.channels + c, s.channels, true);
  }
}

inline void start_pairs(const attention_piece& a, const attention_scratch& s, const row_groups& groups,
                        std::size_t pairs) {
  const float scale = a.scale * 1.44269504088896341f;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const std::size_t group = pair / groups.size;
    const std::size_t rows = rows_of_group(groups, pairs, group);
    const float* q = a.q + pair / a.head_count * a.row_stride + pair % a.head_count * a.head_dim;
    float* out = s.queries + group * groups.size * a.head_dim + pair % groups.size;
    for (std::size_t c = 0; c < a.head_dim; ++c) out[c * rows] = q[c] * scale;
    s.best[pair] = -1.0e30f;
    s.total[pair] = 0.0f;
  }
  for (std::size_t i = 0; i < pairs * s.channels; i += lane_count) store(s.outputs + i, set1(0.0f));
  for (std::size_t c = 0; c < s.channels; ++c) s.nothing[c] = 0;
  // Channels beyond head_dim are computed with the others and never read out; they only need to be numbers.
  for (std::size_t t = 0; t < chunk_tokens; ++t) {
    for (std::size_t c = a.head_dim; c < s.channels; ++c) s.values[t * s.channels + c] = 0.0f;
  }
}

void attention_kernel(const attention_piece& a, void* scratch) {
  const attention_scratch s = lay_out(scratch, a);
  const std::size_t pairs = a.row_count * a.head_count;
  const row_groups groups = split_rows(pairs);
  start_pairs(a, s, groups, pairs);
  const std::size_t position_end = a.first_position + a.row_count;
  for (std::size_t chunk = 0; chunk < position_end; chunk += chunk_tokens) {
    const std::size_t valid = position_end - chunk < chunk_tokens ? position_end - chunk : chunk_tokens;
    widen_chunk(a, s, chunk, valid, position_end);
    for (std::size_t group = 0; group < groups.count; ++group) {
      const std::size_t rows = rows_of_group(groups, pairs, group);
      const std::size_t first_pair = group * groups.size;
      // A group whose last row ends before this chunk sees none of it.
      if (a.first_position + (first_pair + rows - 1) / a.head_count < chunk) continue;
      with_rows(rows, [&]<int Rows>() { attend_group<Rows>(a, s, first_pair, chunk, valid); });
    }
  }
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    float* out = a.out + pair / a.head_count * a.row_stride + pair % a.head_count * a.head_dim;
    for (std::size_t c = 0; c < a.head_dim; ++c) {
      // Adding +0 makes a zero positive: masked keys may have turned -0 into +0 in one grouping and not in
      // another.
      out[c] = s.outputs[pair * s.channels + c] / s.total[pair] + 0.0f;
    }
  }
}

}  // namespace
