#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yolk::tests {

/// One line of a Mooncake trace (JSONL).
struct traced_request {
  double arrival_seconds = 0.0;
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::vector<std::uint32_t> block_ids;  ///< of 512-token blocks; the last may be partial
};

inline constexpr std::uint32_t trace_block_tokens = 512;

/// Ends the program with a message when the file cannot be read or a line is not understood.
std::vector<traced_request> read_trace(const std::string& path);
/// A small trace for a run without a file: conversations whose prompts share their first block.
std::vector<traced_request> made_trace(std::uint64_t seed, std::uint32_t requests);

}  // namespace yolk::tests
