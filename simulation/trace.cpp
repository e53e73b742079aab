#include "simulation/trace.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <queue>

#include "core/invariant.hpp"
#include "core/random.hpp"
#include "simulation/trace_line.hpp"

namespace yolk::simulation {

namespace {

/// Tokens of prompts without ids; below those that executors make up.
constexpr core::token_id first_unshared = 0x80000000u;
constexpr core::token_id unshared_count = 0x40000000u;

struct later {
  bool operator()(const trace_request& a, const trace_request& b) const {
    return a.arrival != b.arrival ? a.arrival > b.arrival : a.number > b.number;
  }
};

core::duration scaled(core::duration time, double factor) {
  return core::duration(
      static_cast<core::duration::rep>(std::llround(static_cast<double>(time.count()) * factor)));
}

/// In [0, 1), a function of seed and number alone: so that a limit does not change what comes before it.
double draw(std::uint64_t seed, std::uint64_t number) {
  return core::uniform_float(seed, number);
}

class file_reader final : public trace_reader {
 public:
  file_reader(std::string path, const trace_options& options)
      : path_(std::move(path)), options_(options), file_(path_) {}

  result<core::void_t> begin() {
    if (!file_) return core::failure<errc>{errc::unreadable, path_ + ": cannot be read"};
    const auto read = read_line();
    if (!read) return core::failure<errc>{errc::malformed, path_ + ": holds no request"};
    azure_ = is_azure_header(line_);
    held_line_ = !azure_;
    return core::void_t{};
  }

  result<std::optional<trace_request>> next() override {
    // What is later than the newest time of the file, jittered or not, cannot be overtaken any more.
    while (!ended_ && (pending_.empty() || pending_.top().arrival > newest_)) {
      const auto read = read_request();
      if (!read) return read.error();
    }
    if (pending_.empty()) return std::optional<trace_request>();
    auto first = pending_.top();
    pending_.pop();
    return std::optional(std::move(first));
  }

 private:
  bool read_line() {
    do {
      if (!std::getline(file_, line_)) return false;
      ++line_number_;
      if (line_.ends_with('\r')) line_.pop_back();
    } while (line_.empty());
    return true;
  }

  core::failure<errc> at_line(const std::string& what) const {
    return {errc::malformed, path_ + ":" + std::to_string(line_number_) + ": " + what};
  }

  result<core::void_t> read_request() {
    const bool full = options_.limit != 0 && count_ >= options_.limit;
    if (full || !(std::exchange(held_line_, false) || read_line())) {
      ended_ = true;
      return core::void_t{};
    }
    auto parsed = azure_ ? parse_azure_line(line_) : parse_mooncake_line(line_);
    if (!parsed) return at_line(parsed.error().message);
    if (count_ == 0) first_time_ = parsed->timestamp;
    if (parsed->timestamp < last_time_ && count_ > 0)
      return at_line(std::string(azure_ ? "TIMESTAMP" : "timestamp") +
                     ": lies before that of the line above");
    last_time_ = parsed->timestamp;
    trace_request request{.number = count_++,
                          .input_tokens = parsed->input_tokens,
                          .output_tokens = std::max(parsed->output_tokens, 1u),
                          .block_ids = std::move(parsed->block_ids)};
    if (options_.poisson_per_second > 0) {
      newest_ += std::chrono::duration_cast<core::duration>(std::chrono::duration<double>(
          -std::log1p(-draw(options_.seed, request.number)) / options_.poisson_per_second));
      request.arrival = newest_;
    } else {
      newest_ = scaled(last_time_ - first_time_, 1.0 / options_.speedup);
      const double jitter = options_.jitter_seconds * draw(options_.seed, request.number) / options_.speedup;
      request.arrival =
          newest_ + std::chrono::duration_cast<core::duration>(std::chrono::duration<double>(jitter));
    }
    pending_.push(std::move(request));
    return core::void_t{};
  }

  std::string path_;
  trace_options options_;
  std::ifstream file_;
  std::string line_;
  std::uint64_t line_number_ = 0;
  bool azure_ = false;
  bool held_line_ = false;  ///< line_ was read, but not used
  bool ended_ = false;
  std::uint64_t count_ = 0;
  core::duration first_time_{};
  core::duration last_time_{};
  core::duration newest_{};  ///< before its jitter, after the speed-up
  std::priority_queue<trace_request, std::vector<trace_request>, later> pending_;
};

}  // namespace

std::vector<core::token_id> tokens_of(const trace_request& request) {
  std::vector<core::token_id> tokens(request.input_tokens);
  const auto unshared = static_cast<core::token_id>(request.number * 0x9e3779b97f4a7c15u >> 34);
  for (std::uint32_t i = 0; i < request.input_tokens; ++i) {
    const auto block = i / trace_block_tokens;
    tokens[i] = block < request.block_ids.size()
                    ? static_cast<core::token_id>(request.block_ids[block] * trace_block_tokens) +
                          i % trace_block_tokens
                    : first_unshared + (unshared + i) % unshared_count;
  }
  return tokens;
}

result<std::unique_ptr<trace_reader>> trace_reader::open(const std::string& path,
                                                         const trace_options& options) {
  YOLK_INVARIANT(options.speedup > 0, options.speedup);
  auto reader = std::make_unique<file_reader>(path, options);
  const auto begun = reader->begin();
  if (!begun) return begun.error();
  return std::unique_ptr<trace_reader>(std::move(reader));
}

}  // namespace yolk::simulation
