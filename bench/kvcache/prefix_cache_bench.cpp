// What the prefix tree costs per block at 100 thousand and a million blocks: matching, storing while
// evicting, and eviction against the plain scan for the oldest block, in one run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "core/random.hpp"
#include "kvcache/prefix_cache.hpp"

using namespace yolk;
using namespace yolk::kvcache;

namespace {

constexpr std::uint32_t block_tokens = 16;
constexpr std::uint32_t shared_blocks = 8;   // the system prompt that all conversations begin with
constexpr std::uint32_t prompt_blocks = 64;  // 1,024 tokens
const block_key root = make_root({.model = "bench"});

std::vector<core::token_id> conversation(std::uint64_t number) {
  std::vector<core::token_id> tokens(prompt_blocks * block_tokens);
  core::random_source random(number);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<core::token_id>(i < shared_blocks * block_tokens ? i : random() % 128'000);
  return tokens;
}

/// What a worker does for a prompt: match, allocate the rest, publish, let go.
void serve(prefix_cache& cache, const std::vector<core::token_id>& tokens) {
  std::vector<core::block_index> table;
  for (const auto& found : cache.match(root, tokens, tokens.size())) table.push_back(found.block);
  const auto fresh = cache.allocate(prompt_blocks - static_cast<std::uint32_t>(table.size()));
  table.insert(table.end(), fresh->begin(), fresh->end());
  cache.insert(root, tokens, table);
  for (const auto block : table) cache.release(block);
}

std::uint64_t fill(prefix_cache& cache) {
  std::uint64_t count = 0;
  while (cache.free_count() >= prompt_blocks) serve(cache, conversation(count++));
  return count;
}

void match_and_release(benchmark::State& state) {
  prefix_cache cache(static_cast<std::uint32_t>(state.range(0)), block_tokens);
  const std::uint64_t count = fill(cache);
  core::random_source random(1);
  std::vector<std::vector<core::token_id>> prompts;
  for (int i = 0; i < 512; ++i) prompts.push_back(conversation(random.below(count)));
  std::size_t next = 0;
  std::int64_t blocks = 0;
  for (auto _ : state) {
    const auto& prompt = prompts[next++ % prompts.size()];
    const auto found = cache.match(root, prompt, prompt.size());
    for (const auto& block : found) cache.release(block.block);
    blocks += static_cast<std::int64_t>(found.size());
  }
  state.SetItemsProcessed(blocks);
}

void match_of_a_foreign_prompt(benchmark::State& state) {
  prefix_cache cache(static_cast<std::uint32_t>(state.range(0)), block_tokens);
  fill(cache);
  const std::vector<core::token_id> prompt(prompt_blocks * block_tokens, 7);
  for (auto _ : state) benchmark::DoNotOptimize(cache.match_count(root, prompt));
}

void store_while_evicting(benchmark::State& state) {
  prefix_cache cache(static_cast<std::uint32_t>(state.range(0)), block_tokens);
  std::uint64_t number = fill(cache);
  const std::uint64_t before = cache.evicted_total();
  for (auto _ : state) {
    state.PauseTiming();
    const auto prompt = conversation(number++);
    state.ResumeTiming();
    serve(cache, prompt);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(cache.evicted_total() - before));
}

/// Allocations that evict, whole conversations at a time; the blocks go back to the free list outside the
/// clock.
void evict_by_tree(benchmark::State& state) {
  prefix_cache cache(static_cast<std::uint32_t>(state.range(0)), block_tokens);
  std::uint64_t number = 0;
  for (auto _ : state) {
    state.PauseTiming();
    while (cache.free_count() >= prompt_blocks) serve(cache, conversation(number++));
    const std::uint32_t count = cache.free_count() + prompt_blocks;
    state.ResumeTiming();
    const auto blocks = cache.allocate(count);
    benchmark::DoNotOptimize(blocks);
    state.PauseTiming();
    for (const auto block : *blocks) cache.release(block);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(cache.evicted_total()));
}

/// The plain way: look at every block for the one used longest ago.
void evict_by_scan(benchmark::State& state) {
  std::vector<std::uint64_t> last_used(static_cast<std::size_t>(state.range(0)));
  core::random_source random(1);
  for (auto& time : last_used) time = random();
  for (auto _ : state) *std::ranges::min_element(last_used) = random();
  state.SetItemsProcessed(state.iterations());
}

}  // namespace

BENCHMARK(match_and_release)->Arg(1000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(match_of_a_foreign_prompt)->Arg(1000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(store_while_evicting)->Arg(1000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(evict_by_tree)->Arg(1000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(evict_by_scan)->Arg(1000)->Arg(100'000)->Arg(1'000'000);
