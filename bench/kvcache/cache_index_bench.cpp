// What the conductor's index costs: a lookup per holder and prompt, an event, and the bytes per (holder, key)
// pair.
#include <benchmark/benchmark.h>

#include <vector>

#include "core/random.hpp"
#include "kvcache/cache_index.hpp"

using namespace yolk;
using namespace yolk::kvcache;

namespace {

constexpr core::worker_id holder{1};
constexpr core::incarnation incarnation{1};
constexpr std::size_t prompt_blocks = 64;

std::vector<block_key> random_keys(std::size_t count, std::uint64_t seed) {
  core::random_source random(seed);
  std::vector<block_key> keys(count);
  for (auto& key : keys) key = {random(), random()};
  return keys;
}

void leading_hits(benchmark::State& state) {
  const auto keys = random_keys(static_cast<std::size_t>(state.range(0)), 1);
  cache_index index;
  index.replace(holder, incarnation, 1, keys);
  core::random_source random(2);
  std::int64_t found = 0;
  for (auto _ : state) {
    const std::span prompt(keys.data() + random.below(keys.size() - prompt_blocks), prompt_blocks);
    found += index.leading(holder, prompt);
  }
  state.SetItemsProcessed(found);
  state.counters["bytes_per_pair"] =
      static_cast<double>(index.memory_bytes()) / static_cast<double>(index.block_count());
}

void leading_misses(benchmark::State& state) {
  cache_index index;
  index.replace(holder, incarnation, 1, random_keys(static_cast<std::size_t>(state.range(0)), 1));
  const auto prompts = random_keys(4096, 2);
  std::size_t next = 0;
  for (auto _ : state) {
    next = (next + 1) % (prompts.size() - prompt_blocks);
    benchmark::DoNotOptimize(index.leading(holder, std::span(prompts.data() + next, prompt_blocks)));
  }
}

/// One block evicted and one stored, as a full cache tells it.
void apply_events(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto keys = random_keys(2 * count, 1);
  cache_index index;
  index.replace(holder, incarnation, 1, std::span(keys).first(count));
  std::uint64_t sequence = 1;
  std::size_t oldest = 0;
  for (auto _ : state) {
    const cache_event events[] = {{cache_event::kind::evicted, keys[oldest]},
                                  {cache_event::kind::stored, keys[(oldest + count) % keys.size()]}};
    benchmark::DoNotOptimize(index.apply(holder, incarnation, ++sequence, events));
    oldest = (oldest + 1) % keys.size();
  }
  state.SetItemsProcessed(2 * state.iterations());
}

}  // namespace

BENCHMARK(leading_hits)->Arg(1000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(leading_misses)->Arg(1000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(apply_events)->Arg(1000)->Arg(100'000)->Arg(1'000'000);
