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
  std::uint16_t* nothing;  ///< [channels] zeros, read as the K of slots that hold no token
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
  s.best = s.scores + max_attention_pairs * chunk_tokens;
  s.total = s.best + max_attention_pairs;
  s.nothing = reinterpret_cast<std::uint16_t*>(s.total + max_attention_pairs);
  return s;
}
static_assert((4 * 64 * max_head_dim + 64 * 64 + 2 * 64) * sizeof(float) + 2 * max_head_dim <= scratch_bytes);

/// Where the K and V vectors of a chunk's 64 slots lie. Slots that hold no token are never read (they may be
/// another sequence's, NaN or unmapped): their K is `nothing`.
struct chunk_slots {
  const std::uint16_t* keys[chunk_tokens];
  const std::uint16_t* values[chunk_tokens];
  std::size_t first = 0;  ///< position of slot 0
  std::size_t valid = 0;
};

/// Walks the block table chunk by chunk.
struct slot_cursor {
  const attention_piece& a;
  const std::uint16_t* nothing;
  std::size_t position_end;
  std::size_t position = 0;
  std::size_t block = 0;
  std::size_t slot = 0;

  void next(chunk_slots& out) {
    out.first = position;
    out.valid = position_end - position < chunk_tokens ? position_end - position : chunk_tokens;
    for (std::size_t t = 0; t < out.valid; ++t) {
      const std::size_t at = a.blocks[block] * a.block_bytes + slot * a.head_dim * sizeof(std::uint16_t);
      out.keys[t] = reinterpret_cast<const std::uint16_t*>(a.keys + at);
      out.values[t] = reinterpret_cast<const std::uint16_t*>(a.values + at);
      if (++slot == a.block_tokens) {
        slot = 0;
        ++block;
      }
    }
    for (std::size_t t = out.valid; t < chunk_tokens; ++t) out.keys[t] = out.values[t] = nothing;
    position += out.valid;
  }
};

inline void fetch_vector(const std::uint16_t* from, std::size_t channels) {
  for (std::size_t c = 0; c < channels; c += 32) prefetch_far(from + c);
}

/// Widens the K of `count` slots from slot `first` on, turned over, into [head_dim][count], and fetches the
/// same slots of the next chunk.
inline void widen_keys(const attention_piece& a, const attention_scratch& s, const chunk_slots& chunk,
                       const chunk_slots& next, std::size_t first, std::size_t count) {
  const std::size_t whole = a.head_dim / lane_count * lane_count;
  for (std::size_t t = 0; t < count; t += 8) {
    const std::uint16_t* const* keys = chunk.keys + first + t;
    for (std::size_t i = 0; i < 8; ++i) fetch_vector(next.keys[first + t + i], a.head_dim);
    for (std::size_t c = 0; c < whole; c += lane_count)
      transpose_8x16(keys, c, s.keys + c * count + t, count);
    for (std::size_t c = whole; c < a.head_dim; ++c) {
      for (std::size_t i = 0; i < 8; ++i) {
        s.keys[c * count + t + i] = __builtin_bit_cast(float, std::uint32_t{keys[i][c]} << 16);
      }
    }
  }
}

/// Widens the chunk's V into [64][channels] and fetches the next chunk's.
inline void widen_values(const attention_piece& a, const attention_scratch& s, const chunk_slots& chunk,
                         const chunk_slots& next) {
  const std::size_t whole = a.head_dim / lane_count * lane_count;
  for (std::size_t t = 0; t < chunk.valid; ++t) {
    const std::uint16_t* v = chunk.values[t];
    fetch_vector(next.values[t], a.head_dim);
    float* out = s.values + t * s.channels;
    for (std::size_t c = 0; c < whole; c += lane_count) store(out + c, load_bf16(v + c));
    for (std::size_t c = whole; c < a.head_dim; ++c)
      out[c] = __builtin_bit_cast(float, std::uint32_t{v[c]} << 16);
  }
}

/// A step is one key of the chunk: weights row-major with 64 a row, V widened on the way. What a single group
/// does instead of widen_values and float_step; the arithmetic is the same.
struct value_step {
  const float* weights;
  const std::uint16_t* const* values;
  const std::uint16_t* const* next;
  std::size_t channel;
  template <int Rows, int Vectors>
  inline void add(f16 (&sum)[Rows][Vectors], std::size_t s) const {
    f16 column[Vectors];
    for (int v = 0; v < Vectors; v += 2) prefetch_far(next[s] + channel + v * lane_count);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) column[v] = load_bf16(values[s] + channel + v * lane_count);
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      const f16 weight = set1(weights[row * chunk_tokens + s]);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[row][v] = fma(weight, column[v], sum[row][v]);
    }
  }
};

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

/// Scores of one group of pairs against `count` widened keys from slot `first` on.
template <int Rows>
inline void score_group(const attention_piece& a, const attention_scratch& s, std::size_t first_pair,
                        std::size_t first, std::size_t count) {
  constexpr std::size_t vectors = tile_vectors<Rows>() > 2 ? 2 : tile_vectors<Rows>();
  float* scores = s.scores + first_pair * chunk_tokens + first;
  for (std::size_t v = 0; v < count / lane_count; v += vectors) {
    const float_step<0> step = {s.queries + first_pair * a.head_dim, s.keys + v * lane_count, count};
    run_tile<Rows, vectors>(step, a.head_dim, scores + v * lane_count, chunk_tokens, false);
  }
}

/// Turns a group's scores into weights and rescales its sums so far.
inline void weigh_group(const attention_piece& a, const attention_scratch& s, std::size_t first_pair,
                        std::size_t rows, const chunk_slots& chunk) {
  for (std::size_t pair = first_pair; pair < first_pair + rows; ++pair) {
    const std::size_t end = a.first_position + pair / a.head_count + 1;
    const std::size_t left = end <= chunk.first ? 0 : end - chunk.first;
    const float scale = softmax_chunk(s.scores + pair * chunk_tokens,
                                      left < chunk_tokens ? left : chunk_tokens, s.best[pair], s.total[pair]);
    if (scale == 1.0f) continue;
    float* out = s.outputs + pair * s.channels;
    for (std::size_t c = 0; c < s.channels; c += lane_count) store(out + c, load(out + c) * set1(scale));
  }
}

/// Adds the chunk's weighted V to one group's outputs; make_step(channel) gives the tile's step.
template <int Rows, class MakeStep>
inline void add_group(const attention_scratch& s, std::size_t first_pair, std::size_t channels,
                      std::size_t valid, const MakeStep& make_step) {
  constexpr int vectors = tile_vectors<Rows>();
  float* out = s.outputs + first_pair * s.channels;
  std::size_t c = 0;
  for (; c + vectors * lane_count <= channels; c += vectors * lane_count) {
    run_tile<Rows, vectors>(make_step(c), valid, out + c, s.channels, true);
  }
  for (; c < channels; c += lane_count) run_tile<Rows, 1>(make_step(c), valid, out + c, s.channels, true);
}

/// Keys widened at a time where one group is all there is: they stay in L1 (128 channels: 16 KiB).
constexpr std::size_t few_keys = 32;

/// A chunk for a single group, as in decode: everything is used once, so as little as possible is stored.
template <int Rows>
inline void attend_alone(const attention_piece& a, const attention_scratch& s, const chunk_slots& chunk,
                         const chunk_slots& next) {
  for (std::size_t first = 0; first < chunk_tokens; first += few_keys) {
    widen_keys(a, s, chunk, next, first, few_keys);
    score_group<Rows>(a, s, 0, first, few_keys);
  }
  weigh_group(a, s, 0, Rows, chunk);
  if (s.channels == a.head_dim) {
    add_group<Rows>(s, 0, s.channels, chunk.valid, [&](std::size_t channel) {
      return value_step{s.scores, chunk.values, next.values, channel};
    });
    return;
  }
  widen_values(a, s, chunk, next);
  add_group<Rows>(s, 0, s.channels, chunk.valid, [&](std::size_t channel) {
    return float_step<chunk_tokens>{s.scores, s.values + channel, s.channels};
  });
}

/// A chunk for several groups, from `begin` on: they share what is widened.
inline void attend_together(const attention_piece& a, const attention_scratch& s, const row_groups& groups,
                            std::size_t begin, const chunk_slots& chunk, const chunk_slots& next) {
  const std::size_t pairs = a.row_count * a.head_count;
  widen_keys(a, s, chunk, next, 0, chunk_tokens);
  for (std::size_t group = begin; group < groups.count; ++group) {
    const std::size_t rows = rows_of_group(groups, pairs, group);
    const std::size_t first_pair = group * groups.size;
    with_rows<attention_rows>(rows,
                              [&]<int Rows>() { score_group<Rows>(a, s, first_pair, 0, chunk_tokens); });
    weigh_group(a, s, first_pair, rows, chunk);
  }
  widen_values(a, s, chunk, next);
  for (std::size_t group = begin; group < groups.count; ++group) {
    const std::size_t first_pair = group * groups.size;
    with_rows<attention_rows>(rows_of_group(groups, pairs, group), [&]<int Rows>() {
      add_group<Rows>(s, first_pair, s.channels, chunk.valid, [&](std::size_t channel) {
        return float_step<chunk_tokens>{s.scores + first_pair * chunk_tokens, s.values + channel, s.channels};
      });
    });
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
  const row_groups groups = split_rows<attention_rows>(pairs);
  start_pairs(a, s, groups, pairs);
  const std::size_t position_end = a.first_position + a.row_count;
  slot_cursor cursor = {a, s.nothing, position_end};
  chunk_slots slots[2];
  cursor.next(slots[0]);
  for (std::size_t i = 0; i * chunk_tokens < position_end; ++i) {
    const chunk_slots& chunk = slots[i % 2];
    chunk_slots& next = slots[(i + 1) % 2];
    cursor.next(next);
    if (groups.count == 1) {
      with_rows<attention_rows>(pairs, [&]<int Rows>() { attend_alone<Rows>(a, s, chunk, next); });
      continue;
    }
    // Groups whose last row ends before this chunk see none of it.
    std::size_t begin = 0;
    while (a.first_position + (begin * groups.size + rows_of_group(groups, pairs, begin) - 1) / a.head_count <
           chunk.first) {
      ++begin;
    }
    attend_together(a, s, groups, begin, chunk, next);
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
