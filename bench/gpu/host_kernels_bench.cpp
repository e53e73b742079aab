// The host device's kernels: GEMM, attention, packing, and the machine's limits in the same run to hold them
// against. Weights are cycled through copies that no cache holds, as the layers of a model are.
//   host_kernels_bench --benchmark_filter='gemm/avx512/.*threads:2'

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "core/bfloat16.hpp"
#include "core/random.hpp"
#include "gpu/host/aligned_buffer.hpp"
#include "gpu/host/host_platform.hpp"
#include "gpu/host/kernel_table.hpp"

using namespace yolk;
using namespace yolk::gpu;
using namespace yolk::gpu::host;

namespace {

/// Beyond any last-level cache that one machine gives two cores.
constexpr std::size_t cycled_bytes = std::size_t{192} << 20;

const std::map<std::string, instruction_set> sets_by_name = {{"plain", instruction_set::plain},
                                                             {"avx2", instruction_set::avx2},
                                                             {"avx512", instruction_set::avx512},
                                                             {"avx512_bf16", instruction_set::avx512_bf16}};

std::vector<float> random_floats(std::size_t count) {
  core::random_source random(count);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() >> 40) * 0x1.0p-23f - 1.0f;
  return values;
}

struct gemm_shape {
  std::size_t rows, outputs, inputs;
};

void gemm(benchmark::State& state, instruction_set isa, unsigned threads, gemm_shape shape) {
  const auto platform = *make_host_platform({.thread_count = threads, .force_isa = isa});
  const std::size_t bytes = shape.outputs * shape.inputs * 2;
  std::vector<std::uint16_t> values(shape.outputs * shape.inputs);
  core::random_source random(1);
  for (std::uint16_t& value : values) value = static_cast<std::uint16_t>(0x3c00 | (random() & 0x80ff));
  const matrix_view view = {
      .data = values.data(), .type = dtype::bf16, .rows = shape.outputs, .columns = shape.inputs};
  std::vector<std::shared_ptr<const weight_matrix>> copies;
  const std::size_t copy_count = shape.rows > 64 ? 1 : std::clamp<std::size_t>(cycled_bytes / bytes, 1, 128);
  for (std::size_t i = 0; i < copy_count; ++i) copies.push_back(*platform->pack({&view, 1}));
  const std::vector<float> x = random_floats(shape.rows * shape.inputs);
  std::vector<float> y(shape.rows * shape.outputs);
  const auto device = *platform->create_device();
  device->begin_step(step_class::prefill);
  std::size_t turn = 0;
  for (auto _ : state) {
    device->gemm({.x = x.data(),
                  .x_stride = shape.inputs,
                  .weights = copies[turn++ % copies.size()].get(),
                  .y = y.data(),
                  .y_stride = shape.outputs,
                  .row_count = shape.rows});
    benchmark::ClobberMemory();
  }
  device->end_step();
  using benchmark::Counter;
  const double products = static_cast<double>(shape.rows * shape.outputs * shape.inputs);
  state.counters["flop"] = Counter(2.0 * products, Counter::kIsIterationInvariantRate);
  state.counters["bytes"] = Counter(static_cast<double>(bytes), Counter::kIsIterationInvariantRate);
}

struct attention_shape {
  std::uint32_t sequences, rows, context, query_heads, kv_heads, head_dim;
};

/// `rows` tokens at the end of `context`, for each sequence.
void attention(benchmark::State& state, instruction_set isa, unsigned threads, attention_shape s) {
  constexpr std::uint32_t block_tokens = 16;
  const auto platform = *make_host_platform({.thread_count = threads, .force_isa = isa});
  const std::uint32_t blocks_each = (s.context + block_tokens - 1) / block_tokens;
  const std::size_t block_bytes = std::size_t{block_tokens} * s.head_dim * 2 * 2 * s.kv_heads;
  std::vector<std::uint64_t> memory(block_bytes / 8 * blocks_each * s.sequences + 8);
  core::random_source random(2);
  for (std::uint64_t& word : memory) word = 0x3c003c003c003c00u | (random() & 0x80ff80ff80ff80ffu);
  std::vector<core::block_index> order(std::size_t{blocks_each} * s.sequences);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  auto* base = reinterpret_cast<std::byte*>(memory.data());
  base += (64 - reinterpret_cast<std::uintptr_t>(base) % 64) % 64;
  std::vector<row_span> spans;
  for (std::uint32_t i = 0; i < s.sequences; ++i) {
    spans.push_back({.first_row = i * s.rows,
                     .row_count = s.rows,
                     .first_position = s.context - s.rows,
                     .blocks = std::span(order).subspan(std::size_t{i} * blocks_each, blocks_each)});
  }
  const std::vector<float> q = random_floats(std::size_t{s.sequences} * s.rows * s.query_heads * s.head_dim);
  std::vector<float> out(q.size());
  const auto device = *platform->create_device();
  device->begin_step(step_class::prefill);
  for (auto _ : state) {
    device->paged_attention({.q = q.data(),
                             .out = out.data(),
                             .query_head_count = s.query_heads,
                             .scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim)),
                             .kv = {.pool = base,
                                    .block_bytes = block_bytes,
                                    .kv_head_count = s.kv_heads,
                                    .head_dim = s.head_dim,
                                    .block_tokens = block_tokens},
                             .spans = spans});
    benchmark::ClobberMemory();
  }
  device->end_step();
  using benchmark::Counter;
  const double seen = static_cast<double>(s.rows) * (s.context - (s.rows - 1) / 2.0) * s.sequences;
  state.counters["flop"] =
      Counter(4.0 * seen * s.query_heads * s.head_dim, Counter::kIsIterationInvariantRate);
  state.counters["bytes"] =
      Counter(4.0 * s.sequences * s.context * s.kv_heads * s.head_dim, Counter::kIsIterationInvariantRate);
}

/// Decode steps of one row, back to back, each through `layers` layers of a small model's widest matrix; with
/// `prefill` a second device does the same with 512 rows all the while. The time is a decode step's, waiting
/// included.
void turns(benchmark::State& state, std::size_t layers, bool prefill) {
  const auto platform = *make_host_platform({});
  const gemm_shape shape = {512, 9728, 1024};
  const std::vector<std::uint16_t> values(shape.outputs * shape.inputs, 0x3c01);
  const matrix_view view = {
      .data = values.data(), .type = dtype::bf16, .rows = shape.outputs, .columns = shape.inputs};
  std::vector<std::shared_ptr<const weight_matrix>> weights;
  for (std::size_t i = 0; i < layers; ++i) weights.push_back(*platform->pack({&view, 1}));
  const std::vector<float> x = random_floats(shape.rows * shape.inputs);
  const auto step = [&](device& on, step_class kind, std::size_t rows, std::vector<float>& y) {
    on.begin_step(kind);
    for (const auto& matrix : weights) {
      on.gemm({.x = x.data(),
               .x_stride = shape.inputs,
               .weights = matrix.get(),
               .y = y.data(),
               .y_stride = shape.outputs,
               .row_count = rows});
    }
    on.end_step();
  };
  std::atomic<bool> stop = false;
  std::atomic<std::size_t> prefilled = 0;
  std::thread prefiller([&] {
    const auto device = *platform->create_device();
    std::vector<float> y(shape.rows * shape.outputs);
    while (prefill && !stop) {
      step(*device, step_class::prefill, shape.rows, y);
      ++prefilled;
    }
  });
  const auto device = *platform->create_device();
  std::vector<float> y(shape.outputs);
  double longest = 0.0;
  const auto begin = std::chrono::steady_clock::now();
  auto last = begin;
  for (auto _ : state) {
    step(*device, step_class::decode, 1, y);
    const auto now = std::chrono::steady_clock::now();
    longest = std::max(longest, std::chrono::duration<double>(now - last).count());
    last = now;
  }
  const double rows = static_cast<double>(shape.rows * prefilled.load());
  state.counters["longest_gap_ms"] = longest * 1e3;
  state.counters["prefill_rows_per_s"] = rows / std::chrono::duration<double>(last - begin).count();
  stop = true;
  prefiller.join();
}

void pack(benchmark::State& state, dtype type, unsigned threads, std::size_t rows) {
  const auto platform = *make_host_platform({.thread_count = threads});
  const std::size_t columns = 1024;
  const std::vector<std::uint32_t> words(rows * columns * size_of(type) / 4, 0x3c013c01u);
  const matrix_view view = {.data = words.data(), .type = type, .rows = rows, .columns = columns};
  for (auto _ : state) benchmark::DoNotOptimize(*platform->pack({&view, 1}));
  state.counters["bytes"] = benchmark::Counter(static_cast<double>(rows * columns * 2),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

template <class Work>
void on_threads(unsigned threads, const Work& work) {
  std::vector<std::thread> running;
  for (unsigned i = 1; i < threads; ++i) running.emplace_back(work, i);
  work(0);
  for (std::thread& thread : running) thread.join();
}

/// What the cores multiply at most, from registers.
void peak(benchmark::State& state, const kernel_table& kernels, unsigned threads) {
  constexpr std::size_t instructions = std::size_t{1} << 22;
  for (auto _ : state) {
    on_threads(threads, [&](unsigned) { benchmark::DoNotOptimize(kernels.probe(instructions)); });
  }
  state.counters["flop"] =
      benchmark::Counter(2.0 * static_cast<double>(instructions * kernels.probe_products * threads),
                         benchmark::Counter::kIsIterationInvariantRate);
}

/// What memory gives at most to plain reads.
void memory_read(benchmark::State& state, unsigned threads) {
  const aligned_buffer memory = aligned_buffer::allocate(2 * cycled_bytes);
  std::memset(memory.data(), 1, memory.bytes());
  for (auto _ : state) {
    on_threads(threads, [&](unsigned thread) {
      const std::size_t words = memory.bytes() / 8 / threads;
      const std::uint64_t* from = static_cast<const std::uint64_t*>(memory.data()) + words * thread;
      std::uint64_t sums[8] = {};
      for (std::size_t i = 0; i + 8 <= words; i += 8) {
        __builtin_prefetch(from + i + 512);
        for (std::size_t j = 0; j < 8; ++j) sums[j] += from[i + j];
      }
      benchmark::DoNotOptimize(sums);
    });
  }
  state.counters["bytes"] =
      benchmark::Counter(static_cast<double>(memory.bytes()), benchmark::Counter::kIsIterationInvariantRate);
}

/// Several runs, of which the fastest says what the code can do and the others what the neighbours did.
benchmark::internal::Benchmark* best_of_runs(benchmark::internal::Benchmark* run) {
  const auto least = [](const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); };
  const auto most = [](const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); };
  return run->UseRealTime()->ComputeStatistics("least", least)->ComputeStatistics("most", most);
}

void add_gemm(const std::string& isa, instruction_set set, unsigned threads) {
  for (const std::size_t rows : {1, 2, 4, 8, 16, 64, 512}) {
    for (const auto& [outputs, inputs] :
         {std::pair<std::size_t, std::size_t>{1024, 1024}, {9728, 1024}, {32000, 1024}, {1024, 4864}}) {
      const std::string name = "gemm/" + isa + "/" + std::to_string(rows) + "x" + std::to_string(outputs) +
                               "x" + std::to_string(inputs) + "/threads:" + std::to_string(threads);
      best_of_runs(
          benchmark::RegisterBenchmark(name.c_str(), gemm, set, threads, gemm_shape{rows, outputs, inputs}));
    }
  }
}

void add_attention(const std::string& isa, instruction_set set, unsigned threads) {
  const auto add = [&](const std::string& what, attention_shape shape) {
    const std::string name = "attention/" + isa + "/" + what + "/threads:" + std::to_string(threads);
    best_of_runs(benchmark::RegisterBenchmark(name.c_str(), attention, set, threads, shape));
  };
  add("decode_8x4096_gqa4_d64", {8, 1, 4096, 16, 4, 64});
  add("decode_8x4096_gqa4_d128", {8, 1, 4096, 32, 8, 128});
  add("decode_8x4096_gqa1_d128", {8, 1, 4096, 8, 8, 128});
  add("decode_8x4096_gqa8_d128", {8, 1, 4096, 16, 2, 128});
  add("prefill_512_gqa4_d64", {1, 512, 512, 16, 4, 64});
  add("prefill_512_of_4096_gqa4_d64", {1, 512, 4096, 16, 4, 64});
  add("prefill_512_of_4096_gqa4_d128", {1, 512, 4096, 32, 8, 128});
}

}  // namespace

int main(int argc, char** argv) {
  for (const unsigned threads : {1u, 2u}) {
    const std::string suffix = "/threads:" + std::to_string(threads);
    best_of_runs(benchmark::RegisterBenchmark(("limit/memory_read" + suffix).c_str(), memory_read, threads));
#if defined(__x86_64__)
    const auto sets = available_instruction_sets();
    const auto has = [&](instruction_set isa) {
      return std::find(sets.begin(), sets.end(), isa) != sets.end();
    };
    if (has(instruction_set::avx512)) {
      best_of_runs(
          benchmark::RegisterBenchmark(("limit/fma_avx512" + suffix).c_str(), peak, avx512_kernels, threads));
    }
    if (has(instruction_set::avx512_bf16)) {
      best_of_runs(benchmark::RegisterBenchmark(("limit/dot_avx512_bf16" + suffix).c_str(), peak,
                                                avx512_bf16_kernels, threads));
    }
#endif
    best_of_runs(
        benchmark::RegisterBenchmark(("pack/bf16" + suffix).c_str(), pack, dtype::bf16, threads, 65536));
    best_of_runs(
        benchmark::RegisterBenchmark(("pack/f16" + suffix).c_str(), pack, dtype::f16, threads, 65536));
    best_of_runs(
        benchmark::RegisterBenchmark(("pack/f32" + suffix).c_str(), pack, dtype::f32, threads, 65536));
  }
  for (const auto& [name, set] : sets_by_name) {
    const auto sets = available_instruction_sets();
    if (std::find(sets.begin(), sets.end(), set) == sets.end()) continue;
    for (const unsigned threads : {1u, 2u}) {
      add_gemm(name, set, threads);
      add_attention(name, set, threads);
    }
    benchmark::RegisterBenchmark(("gemm/" + name + "/small").c_str(), gemm, set, 2u, gemm_shape{8, 128, 128})
        ->UseRealTime();
    benchmark::RegisterBenchmark(("attention/" + name + "/small").c_str(), attention, set, 2u,
                                 attention_shape{2, 4, 40, 4, 2, 64})
        ->UseRealTime();
  }
  benchmark::RegisterBenchmark("pack/small", pack, dtype::f32, 2u, std::size_t{128})->UseRealTime();
  benchmark::RegisterBenchmark("turns/decode_alone", turns, std::size_t{24}, false)->UseRealTime();
  benchmark::RegisterBenchmark("turns/decode_beside_prefill", turns, std::size_t{24}, true)->UseRealTime();
  benchmark::RegisterBenchmark("turns/small", turns, std::size_t{2}, true)->UseRealTime();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
