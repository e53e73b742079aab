// What a placement costs the conductor: the walk over the index, the view, the policy. 64 prefill workers,
// each with a shard on its node, 64 decode workers, prompts of 100 blocks, and as many blocks in the index as
// the argument says. latency_p99 is in microseconds.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "kvcache/cache_index.hpp"
#include "scheduling/placement.hpp"

using namespace yolk;
using namespace yolk::scheduling;

namespace {

constexpr std::uint32_t workers = 64;
constexpr std::uint32_t prompt_blocks = 100;
constexpr std::uint32_t block_tokens = 16;

/// Conversations of up to 100 blocks that share their first block; each is on one to three shards.
class indexed_cluster {
 public:
  explicit indexed_cluster(std::size_t block_count) : random_(7) {
    std::vector<std::uint64_t> numbers(workers, 0);
    const kvcache::block_key shared{random_(), random_()};
    while (index_.block_count() < block_count) {
      auto& conversation = conversations_.emplace_back();
      conversation.push_back(shared);
      for (std::uint64_t i = 20 + random_.below(prompt_blocks - 20); i > 0; --i)
        conversation.push_back({random_(), random_()});
      std::vector<kvcache::cache_event> events;
      for (const auto& key : conversation) events.push_back({kvcache::cache_event::kind::stored, key});
      for (std::uint64_t copies = 1 + random_.below(3); copies > 0; --copies) {
        const auto shard = static_cast<std::uint32_t>(random_.below(workers));
        (void)index_.apply({1000 + shard}, {1}, ++numbers[shard], events);
      }
    }
    for (std::uint32_t i = 0; i < workers; ++i) {
      prefill_.push_back({.worker = {i},
                          .at = {.node = i},
                          .queue_seconds = 0.001 * static_cast<double>(random_.below(3000)),
                          .queued_requests = static_cast<std::uint32_t>(random_.below(5))});
      decode_.push_back({.worker = {500 + i},
                         .at = {.node = i},
                         .sequences = static_cast<std::uint32_t>(random_.below(60)),
                         .context_tokens = random_.below(600'000),
                         .free_tokens = random_.below(1'000'000)});
    }
  }

  void next_prompt() {
    const auto& from = conversations_[random_.below(conversations_.size())];
    prompt_ = from;
    while (prompt_.size() < prompt_blocks) prompt_.push_back({random_(), random_()});
  }

  std::optional<placement> place(placement_policy& policy) {
    holders_.clear();
    for (const auto& [holder, leading] : index_.matches(prompt_))
      holders_.push_back(
          {.holder = holder, .at = {.node = holder.value - 1000}, .cached_tokens = leading * block_tokens});
    ids_.clear();
    if (policy.reads_prefix())
      for (const auto& key : prompt_) ids_.push_back(key.low);
    return policy.place({.number = ++number_,
                         .prompt_tokens = prompt_blocks * block_tokens,
                         .now_seconds = 1e-4 * static_cast<double>(number_),
                         .prefix_ids = ids_,
                         .may_hold = false},
                        {.prefill = prefill_, .holders = holders_, .decode = decode_, .latency = &latency_});
  }

  [[nodiscard]] double bytes_per_block() const {
    return static_cast<double>(index_.memory_bytes()) / static_cast<double>(index_.block_count());
  }

 private:
  core::random_source random_;
  kvcache::cache_index index_;
  std::vector<std::vector<kvcache::block_key>> conversations_;
  std::vector<prefill_candidate> prefill_;
  std::vector<decode_candidate> decode_;
  corrected_model latency_{a800_llama3_70b(), {}};
  std::vector<kvcache::block_key> prompt_;
  std::vector<prefix_holder> holders_;
  std::vector<std::uint64_t> ids_;
  std::uint64_t number_ = 0;
};

void place(benchmark::State& state, const std::string& name) {
  static indexed_cluster cluster(static_cast<std::size_t>(state.range(0)));
  const auto policy = std::move(make_placement_policy(name)).value();
  std::vector<float> microseconds;
  using clock = std::chrono::steady_clock;
  for (auto _ : state) {
    cluster.next_prompt();
    const auto begin = clock::now();
    benchmark::DoNotOptimize(cluster.place(*policy));
    const std::chrono::duration<double> elapsed = clock::now() - begin;
    state.SetIterationTime(elapsed.count());
    microseconds.push_back(static_cast<float>(elapsed.count() * 1e6));
  }
  std::ranges::sort(microseconds);
  state.SetItemsProcessed(state.iterations());
  state.counters["latency_p50"] = microseconds[microseconds.size() / 2];
  state.counters["latency_p99"] = microseconds[microseconds.size() * 99 / 100];
  state.counters["bytes_per_block"] = cluster.bytes_per_block();
}

}  // namespace

int main(int argc, char** argv) {
  // One size a run: 1,000,000 blocks, or as many as --blocks=N says.
  std::int64_t blocks = 1'000'000;
  if (argc > 1 && std::string(argv[1]).starts_with("--blocks=")) {
    blocks = std::stoll(std::string(argv[1]).substr(9));
    argv[1] = argv[0];
    ++argv;
    --argc;
  }
  for (const auto name : placement_policy_names())
    benchmark::RegisterBenchmark(std::string(name).c_str(),
                                 [name](benchmark::State& state) { place(state, std::string(name)); })
        ->Arg(blocks)
        ->UseManualTime();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
