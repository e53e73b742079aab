#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "simulation/errc.hpp"

namespace yolk::simulation {

/// Tokens that one id of a Mooncake trace stands for.
inline constexpr std::uint32_t trace_block_tokens = 512;

/// One request of a trace.
struct trace_request {
  std::uint64_t number = 0;  ///< from 0, in the file's order
  core::duration arrival{};  ///< from the start
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::vector<std::uint64_t>
      block_ids;  ///< of trace_block_tokens each, the last perhaps in part; empty = nothing shared
};

/// The prompt: equal ids give equal tokens, and what has no id is like nothing else.
std::vector<core::token_id> tokens_of(const trace_request& request);

struct trace_options {
  double speedup = 1.0;           ///< arrivals come so many times as fast
  double jitter_seconds = 0.0;    ///< each arrival is later by up to this much of the trace's time (uniform)
  double poisson_per_second = 0;  ///< > 0: gaps are drawn (exponential), the trace's times are not used
  std::uint64_t seed = 1;
  std::uint64_t limit = 0;  ///< requests; 0 = all
};

/// Reads a trace request by request, in order of arrival. Two formats, told apart by the first line:
/// Mooncake's JSON lines (timestamp in ms, input_length, output_length, hash_ids) and Azure's CSV (TIMESTAMP,
/// ContextTokens, GeneratedTokens). Holds what arrives within one jitter, no more. A failure names file, line
/// and field.
class trace_reader {
 public:
  static result<std::unique_ptr<trace_reader>> open(const std::string& path, const trace_options& options);
  virtual ~trace_reader() = default;
  /// The next request; nothing at the end.
  virtual result<std::optional<trace_request>> next() = 0;
};

}  // namespace yolk::simulation
