// What proof costs: the key of a block, and the checks of a pulled one against a plain copy of its bytes, in
// one run.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "kvcache/block_header.hpp"

using namespace yolk;
using namespace yolk::kvcache;

namespace {

/// A block of about range(0) / 2 KiB: 64 KiB a layer.
segment_layout layout_of(const benchmark::State& state) {
  return {.layer_count = static_cast<std::uint32_t>(state.range(0)) / 125 + 1,
          .kv_head_count = 8,
          .head_dim = 128};
}

void chain_keys(benchmark::State& state) {
  const std::vector<core::token_id> tokens(static_cast<std::size_t>(state.range(0)) / 16 * 16, 9);
  for (auto _ : state) benchmark::DoNotOptimize(keys_of({}, tokens, 16));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tokens.size() / 16));
}

void verify(benchmark::State& state) {
  const segment_layout layout = layout_of(state);
  const std::vector<std::byte> block(layout.block_bytes());
  const std::vector<core::token_id> tokens(layout.block_tokens, 5);
  const block_header header{
      .key = chain({}, tokens), .tokens = tokens, .layer_checksums = layer_checksums(block, layout)};
  for (auto _ : state)
    if (!verify_block(header, {}, tokens, 0, block, layout)) state.SkipWithError("a sound block failed");
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(block.size()));
}

void copy(benchmark::State& state) {
  const std::vector<std::byte> block(layout_of(state).block_bytes());
  std::vector<std::byte> target(block.size());
  for (auto _ : state) {
    std::memcpy(target.data(), block.data(), block.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(block.size()));
}

}  // namespace

BENCHMARK(chain_keys)->Arg(1000)->Arg(100'000);
BENCHMARK(verify)->Arg(1000)->Arg(10'000);
BENCHMARK(copy)->Arg(1000)->Arg(10'000);
