// Hit ratios of the eviction orders over a trace, one cache for all prompts:
//   hit_ratio [TRACE.jsonl]
// Without a trace a small one is made up.
#include <cstdio>
#include <vector>

#include "kvcache/eviction_order.hpp"
#include "tests/scheduling/trace.hpp"

using namespace yolk;

int main(int argc, char** argv) {
  const auto requests = argc > 1 ? tests::read_trace(argv[1]) : tests::made_trace(1, 400);
  std::vector<kvcache::traced_prompt> prompts;
  for (const auto& request : requests) prompts.push_back(request.block_ids);
  const std::size_t capacities[] = {1000, 10'000, 30'000, 50'000, 100'000, 0};
  std::printf("| order | 1k | 10k | 30k | 50k | 100k | unbounded |\n|---|---|---|---|---|---|---|\n");
  for (const auto name : kvcache::eviction_order_names()) {
    std::printf("| %.*s |", static_cast<int>(name.size()), name.data());
    for (const auto capacity : capacities) {
      const auto counts = kvcache::replay_hits(prompts, *kvcache::find_eviction_order(name), capacity);
      std::printf(" %.4f |", counts.hit_ratio());
    }
    std::printf("\n");
  }
  return 0;
}
