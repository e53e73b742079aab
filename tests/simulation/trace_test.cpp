#include "simulation/trace.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>

#include "tests/simulation/trace_file.hpp"

using namespace yolk;
using namespace yolk::simulation;
using yolk::tests::trace_file;

namespace {

std::vector<trace_request> read_all(const std::string& path, const trace_options& options = {}) {
  auto reader = trace_reader::open(path, options);
  REQUIRE(reader.has_value());
  std::vector<trace_request> all;
  for (;;) {
    auto next = (*reader)->next();
    REQUIRE(next.has_value());
    if (!*next) return all;
    all.push_back(**next);
  }
}

std::string error_of(const std::string& text) {
  const trace_file file(text);
  auto reader = trace_reader::open(file.path(), {});
  if (!reader) return reader.error().message;
  for (;;) {
    auto next = (*reader)->next();
    if (!next) return next.error().message;
    if (!*next) return "";
  }
}

double seconds(core::duration time) {
  return std::chrono::duration<double>(time).count();
}

constexpr const char* three =
    R"({"timestamp": 1000, "input_length": 1000, "output_length": 7, "hash_ids": [0, 5]}
{"timestamp": 4000, "input_length": 512, "output_length": 9, "hash_ids": [0]}

{"timestamp": 4000, "input_length": 600, "output_length": 1, "hash_ids": [0, 6]}
)";

}  // namespace

TEST_CASE("Mooncake's lines are read, from the first time on") {
  const trace_file file(three);
  const auto all = read_all(file.path());
  REQUIRE(all.size() == 3);
  CHECK(all[0].arrival == core::duration(0));
  CHECK(seconds(all[1].arrival) == 3.0);
  CHECK(all[0].input_tokens == 1000);
  CHECK(all[0].output_tokens == 7);
  CHECK(all[2].block_ids == std::vector<std::uint64_t>{0, 6});
}

TEST_CASE("equal ids give equal tokens, and only those") {
  const trace_file file(three);
  const auto all = read_all(file.path());
  const auto a = tokens_of(all[0]), b = tokens_of(all[1]), c = tokens_of(all[2]);
  CHECK(a.size() == 1000);
  CHECK(std::equal(b.begin(), b.end(), a.begin()));
  CHECK(std::equal(b.begin(), b.end(), c.begin()));
  CHECK(a[512] != c[512]);
}

TEST_CASE("Azure's CSV is read; nothing is shared") {
  const trace_file file(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n"
      "2023-11-17 00:15:47,374,109\r\n");
  const auto all = read_all(file.path());
  REQUIRE(all.size() == 2);
  CHECK(seconds(all[1].arrival) == doctest::Approx(6 * 3600 + 0.31941));
  CHECK(all[1].output_tokens == 109);
  CHECK(tokens_of(all[0])[0] != tokens_of(all[1])[0]);
}

TEST_CASE("a speed-up, a limit, jitter within a tick and Poisson gaps change arrivals and nothing else") {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += R"({"timestamp": )" + std::to_string(i / 10 * 3000) +
            R"(, "input_length": 10, "output_length": 1, "hash_ids": [)" + std::to_string(i) + "]}\n";
  const trace_file file(text);
  CHECK(seconds(read_all(file.path(), {.speedup = 2.0}).back().arrival) == doctest::Approx(39 * 1.5));
  CHECK(read_all(file.path(), {.limit = 7}).size() == 7);

  const auto jittered = read_all(file.path(), {.jitter_seconds = 3.0, .seed = 5});
  REQUIRE(jittered.size() == 400);
  bool moved = false;
  for (std::size_t i = 0; i < jittered.size(); ++i) {
    const double tick = static_cast<double>(jittered[i].number / 10) * 3.0;
    CHECK(seconds(jittered[i].arrival) >= tick);
    CHECK(seconds(jittered[i].arrival) < tick + 3.0);
    if (i > 0) CHECK(jittered[i].arrival >= jittered[i - 1].arrival);
    moved = moved || jittered[i].number != i;
  }
  CHECK(moved);
  CHECK(read_all(file.path(), {.jitter_seconds = 3.0, .seed = 5})[17].arrival == jittered[17].arrival);
  CHECK(read_all(file.path(), {.jitter_seconds = 3.0, .seed = 6})[17].arrival != jittered[17].arrival);

  const auto poisson = read_all(file.path(), {.poisson_per_second = 4.0});
  CHECK(seconds(poisson.back().arrival) == doctest::Approx(100.0).epsilon(0.2));
}

TEST_CASE("what is wrong is told with file, line and field") {
  const std::string good = R"({"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1]})"
                           "\n";
  CHECK(error_of(good) == "");
  const auto tells = [&](const std::string& line, const std::string& what) {
    const auto message = error_of(good + line + "\n");
    CAPTURE(message);
    CHECK(message.find(":2: " + what) != std::string::npos);
  };
  tells("{", "line:");
  tells(R"({"input_length": 10, "output_length": 1, "hash_ids": [1]})", "timestamp: is missing");
  tells(R"({"timestamp": 0, "input_length": -1, "output_length": 1, "hash_ids": [1]})",
        "input_length: -1 is not");
  tells(R"({"timestamp": 0, "input_length": 10, "output_length": 1.5, "hash_ids": [1]})",
        "output_length: is not");
  tells(R"({"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1]})",
        "hash_ids: has 1 ids");
  tells(R"({"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": ["x"]})", "hash_ids:");
  CHECK(error_of(good +
                 R"({"timestamp": 9, "input_length": 10, "output_length": 1, "hash_ids": [1]})"
                 "\n" +
                 good)
            .find(":3: timestamp: lies before") != std::string::npos);
  CHECK(error_of("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,x,4\n")
            .find(":2: ContextTokens:") != std::string::npos);
  CHECK(error_of("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,4\n").find(":2: TIMESTAMP:") !=
        std::string::npos);
  CHECK(error_of("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1\n").find(":2: line:") !=
        std::string::npos);
  CHECK(error_of("").find("holds no request") != std::string::npos);
  CHECK(trace_reader::open("/nowhere/at/all", {}).error().code == errc::unreadable);
}
