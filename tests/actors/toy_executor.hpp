#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "core/background_thread.hpp"
#include "core/random.hpp"
#include "kvcache/block_header.hpp"
#include "kvcache/segment_layout.hpp"
#include "model/step_executor.hpp"

// A model small enough to be its own reference, in which wrong KV always shows. The KV row of position p says
// in every layer, head and part the digest of all tokens up to p, mixed with where it lies; the next token is
// a digest of all rows as they are found in the blocks. A block of another prompt, a stale or torn one
// changes every later token.
namespace yolk::tests {

inline constexpr std::uint32_t toy_vocabulary = 500;
inline constexpr core::token_id toy_end_token = 7;
inline constexpr kvcache::segment_layout toy_layout{
    .layer_count = 3, .kv_head_count = 2, .head_dim = 8, .block_tokens = 4, .element_bytes = 2};

inline std::uint64_t toy_mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9E3779B97F4A7C15ull + b + 0x632BE59BD9B4E019ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  return z ^ (z >> 27);
}

/// What follows `tokens`, by the definition above, without any block.
inline core::token_id toy_next(std::span<const core::token_id> tokens) {
  std::uint64_t prefix = 1, all = 0;
  for (const auto token : tokens) {
    prefix = toy_mix(prefix, token);
    for (std::uint32_t row = 0; row < toy_layout.layer_count * toy_layout.kv_head_count * 2; ++row)
      all = toy_mix(all, toy_mix(prefix, row));
  }
  return static_cast<core::token_id>(all % toy_vocabulary);
}

/// Tokens at random, the same for the same seed.
inline std::vector<core::token_id> prompt_of(std::uint64_t seed, std::size_t length) {
  core::random_source random(seed);
  std::vector<core::token_id> tokens;
  for (std::size_t i = 0; i < length; ++i)
    tokens.push_back(static_cast<core::token_id>(random.below(toy_vocabulary)));
  return tokens;
}

/// Prompt and greedy continuation, up to an end token or max_tokens.
inline std::vector<core::token_id> toy_generate(std::vector<core::token_id> tokens, std::size_t max_tokens,
                                                bool ignore_end = true) {
  std::vector<core::token_id> generated;
  while (generated.size() < max_tokens) {
    const auto next = toy_next(tokens);
    tokens.push_back(next);
    generated.push_back(next);
    if (!ignore_end && next == toy_end_token) break;
  }
  return generated;
}

class toy_executor final : public model::step_executor {
 public:
  /// A sequence longer than `finite_tokens` gets no finite logits.
  explicit toy_executor(std::span<std::byte> pool, std::size_t finite_tokens)
      : pool_(pool), finite_tokens_(finite_tokens), thread_("toy") {}

  void submit(model::step work, layer_callback on_layer, done_callback on_done) override {
    auto shared = std::make_shared<model::step>(std::move(work));
    const bool posted = thread_.post([this, shared, on_layer, on_done] { on_done(run(*shared, on_layer)); });
    YOLK_INVARIANT(posted);
  }

 private:
  std::uint64_t* row(const model::step_slice& slice, std::uint32_t layer, std::uint32_t head,
                     kvcache::kv_part part, std::uint32_t position) {
    const auto block = slice.blocks[position / toy_layout.block_tokens];
    const auto offset = block * toy_layout.block_bytes() + toy_layout.segment_offset(layer, head, part) +
                        (position % toy_layout.block_tokens) * toy_layout.head_dim * toy_layout.element_bytes;
    return reinterpret_cast<std::uint64_t*>(pool_.data() + offset);
  }

  model::step_result run(const model::step& work, const layer_callback& on_layer) {
    // The prefix digest goes on from the last row found, so that a wrong block spoils what is computed after
    // it, too.
    for (std::uint32_t layer = 0; layer < toy_layout.layer_count; ++layer) {
      for (const auto& slice : work.slices) {
        std::uint64_t prefix = 1;
        if (slice.first_position > 0)
          prefix = row(slice, 0, 0, kvcache::kv_part::key, slice.first_position - 1)[1];
        for (std::uint32_t i = 0; i < slice.tokens.size(); ++i) {
          prefix = toy_mix(prefix, slice.tokens[i]);
          for (std::uint32_t head = 0; head < toy_layout.kv_head_count; ++head)
            for (const auto part : {kvcache::kv_part::key, kvcache::kv_part::value}) {
              auto* target = row(slice, layer, head, part, slice.first_position + i);
              const auto number =
                  (layer * toy_layout.kv_head_count + head) * 2 + static_cast<std::uint32_t>(part);
              target[0] = toy_mix(prefix, number);
              target[1] = prefix;
            }
        }
      }
      if (on_layer) on_layer(layer);
    }
    model::step_result result;
    for (const auto& slice : work.slices) {
      auto& samples = result.samples.emplace_back();
      if (slice.first_position + slice.tokens.size() > finite_tokens_) continue;
      const auto next = next_token(slice);
      for (const auto& sampler : slice.samplers) {
        std::vector<float> logits(toy_vocabulary, 0.0f);
        logits[next] = 20.0f;
        samples.push_back(sampler->sample(logits));
      }
    }
    return result;
  }

  core::token_id next_token(const model::step_slice& slice) {
    std::uint64_t all = 0;
    const auto end = slice.first_position + static_cast<std::uint32_t>(slice.tokens.size());
    for (std::uint32_t position = 0; position < end; ++position)
      for (std::uint32_t layer = 0; layer < toy_layout.layer_count; ++layer)
        for (std::uint32_t head = 0; head < toy_layout.kv_head_count; ++head)
          for (const auto part : {kvcache::kv_part::key, kvcache::kv_part::value})
            all = toy_mix(all, row(slice, layer, head, part, position)[0]);
    return static_cast<core::token_id>(all % toy_vocabulary);
  }

  std::span<std::byte> pool_;
  std::size_t finite_tokens_;
  core::background_thread thread_;
};

}  // namespace yolk::tests
