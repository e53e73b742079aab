#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "simulation/trace.hpp"

namespace yolk::simulation {

/// One line's content, with the time as the file has it.
struct trace_line {
  core::duration timestamp{};  ///< since whatever the format counts from
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::vector<std::uint64_t> block_ids;
};

/// A failure's message names the field; the caller adds file and line.
result<trace_line> parse_mooncake_line(std::string_view line);
/// `2023-11-16 18:15:46.6805900,374,44`: the time with up to nine digits of a second.
result<trace_line> parse_azure_line(std::string_view line);
/// Whether it is the first line of an Azure file.
bool is_azure_header(std::string_view line);

}  // namespace yolk::simulation
