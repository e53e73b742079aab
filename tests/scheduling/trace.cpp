#include "tests/scheduling/trace.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "core/random.hpp"

namespace yolk::tests {

namespace {

[[noreturn]] void fail(const std::string& path, std::size_t line, std::string_view what) {
  std::fprintf(stderr, "%s:%zu: %.*s\n", path.c_str(), line, static_cast<int>(what.size()), what.data());
  std::exit(1);
}

}  // namespace

std::vector<traced_request> read_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(path, 0, "cannot be read");
  std::vector<traced_request> requests;
  std::string line;
  while (std::getline(file, line)) {
    const auto number = [&](const char* field) {
      const auto at = line.find(std::string("\"") + field + "\":");
      if (at == std::string::npos) fail(path, requests.size() + 1, field);
      return std::strtod(line.c_str() + at + std::string_view(field).size() + 3, nullptr);
    };
    traced_request request{.arrival_seconds = number("timestamp") / 1000.0,
                           .input_tokens = static_cast<std::uint32_t>(number("input_length")),
                           .output_tokens = static_cast<std::uint32_t>(number("output_length"))};
    auto at = line.find('[');
    if (at == std::string::npos) fail(path, requests.size() + 1, "hash_ids");
    const char* cursor = line.c_str() + at + 1;
    for (char* end = nullptr;; cursor = end + (*end == ',' ? 1 : 0)) {
      const auto id = std::strtoul(cursor, &end, 10);
      if (end == cursor) break;
      request.block_ids.push_back(static_cast<std::uint32_t>(id));
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<traced_request> made_trace(std::uint64_t seed, std::uint32_t requests) {
  core::random_source random(seed);
  std::vector<traced_request> made;
  std::uint32_t next_id = 1;
  double now = 0.0;
  for (std::uint32_t i = 0; i < requests; ++i) {
    now -= std::log(random.open_unit()) / 3.4;
    traced_request request{.arrival_seconds = now,
                           .output_tokens = static_cast<std::uint32_t>(20 + random.below(600)),
                           .block_ids = {0}};
    if (!made.empty() && random.below(5) < 2)
      request.block_ids =
          made[made.size() - 1 - random.below(std::min<std::size_t>(made.size(), 300))].block_ids;
    for (std::uint64_t added = 1 + random.below(30); added > 0; --added)
      request.block_ids.push_back(next_id++);
    request.input_tokens = static_cast<std::uint32_t>(request.block_ids.size()) * trace_block_tokens -
                           static_cast<std::uint32_t>(random.below(trace_block_tokens));
    made.push_back(std::move(request));
  }
  return made;
}

}  // namespace yolk::tests
