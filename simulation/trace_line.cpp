#include "simulation/trace_line.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace yolk::simulation {

namespace {

using json = nlohmann::json;

/// The longest prompt or answer that anybody replays; more is a broken file.
constexpr std::uint64_t max_tokens = std::uint64_t{1} << 24;
/// Tokens are made of ids (trace.cpp), up to where generated tokens begin.
constexpr std::uint64_t max_block_id = 0x80000000u / trace_block_tokens - 1;

core::failure<errc> bad(std::string_view field, const std::string& what) {
  return {errc::malformed, std::string(field) + ": " + what};
}

struct bounds {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};

result<std::uint64_t> number_in(const json& line, const char* field, bounds limits) {
  const auto found = line.find(field);
  if (found == line.end()) return bad(field, "is missing");
  if (!found->is_number_integer() && !found->is_number_unsigned()) return bad(field, "is not an integer");
  const auto value = found->is_number_unsigned() ? found->get<std::uint64_t>() : std::uint64_t(0);
  if (!found->is_number_unsigned() || value < limits.least || value > limits.most)
    return bad(field, found->dump() + " is not within " + std::to_string(limits.least) + " and " +
                          std::to_string(limits.most));
  return value;
}

result<std::uint64_t> number_from(std::string_view text, const char* field, bounds limits) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size())
    return bad(field, "'" + std::string(text) + "' is not a number");
  if (value < limits.least || value > limits.most)
    return bad(field, std::string(text) + " is not within " + std::to_string(limits.least) + " and " +
                          std::to_string(limits.most));
  return value;
}

result<core::duration> azure_time(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  const std::string copy(text);
  if (std::sscanf(copy.c_str(), "%4d-%2d-%2d%*1[ T]%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute,
                  &second, &used) != 6)
    return bad("TIMESTAMP", "'" + copy + "' is not a time like 2023-11-16 18:15:46.68");
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return bad("TIMESTAMP", "'" + copy + "' is no date");
  core::duration time = std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
                        std::chrono::minutes(minute) + std::chrono::seconds(second);
  std::int64_t unit = 100'000'000;
  auto rest = text.substr(static_cast<std::size_t>(used));
  if (rest.starts_with('.'))
    for (rest.remove_prefix(1); !rest.empty() && rest.front() >= '0' && rest.front() <= '9';
         rest.remove_prefix(1)) {
      time += std::chrono::nanoseconds(unit * (rest.front() - '0'));
      unit /= 10;
    }
  return time;
}

}  // namespace

result<trace_line> parse_mooncake_line(std::string_view line) {
  const auto parsed = json::parse(line.begin(), line.end(), nullptr, false);
  if (!parsed.is_object()) return bad("line", "is not a JSON object");
  const auto timestamp = number_in(parsed, "timestamp", {0, std::uint64_t{1} << 42});
  if (!timestamp) return timestamp.error();
  const auto input = number_in(parsed, "input_length", {1, max_tokens});
  if (!input) return input.error();
  const auto output = number_in(parsed, "output_length", {0, max_tokens});
  if (!output) return output.error();
  trace_line read{.timestamp = std::chrono::milliseconds(*timestamp),
                  .input_tokens = static_cast<std::uint32_t>(*input),
                  .output_tokens = static_cast<std::uint32_t>(*output)};
  const auto ids = parsed.find("hash_ids");
  if (ids == parsed.end() || !ids->is_array()) return bad("hash_ids", "is not an array");
  const auto expected = (read.input_tokens + trace_block_tokens - 1) / trace_block_tokens;
  if (ids->size() != expected)
    return bad("hash_ids", "has " + std::to_string(ids->size()) + " ids, " +
                               std::to_string(read.input_tokens) + " tokens take " +
                               std::to_string(expected));
  read.block_ids.reserve(ids->size());
  for (const auto& id : *ids) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > max_block_id)
      return bad("hash_ids", id.dump() + " is not an id up to " + std::to_string(max_block_id));
    read.block_ids.push_back(id.get<std::uint64_t>());
  }
  return read;
}

bool is_azure_header(std::string_view line) {
  return line.starts_with("TIMESTAMP,");
}

result<trace_line> parse_azure_line(std::string_view line) {
  std::array<std::string_view, 3> fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto comma = line.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == fields.size()))
      return bad("line", "has not three fields (TIMESTAMP, ContextTokens, GeneratedTokens)");
    fields[i] = line.substr(0, comma);
    if (comma != std::string_view::npos) line.remove_prefix(comma + 1);
  }
  const auto time = azure_time(fields[0]);
  if (!time) return time.error();
  const auto input = number_from(fields[1], "ContextTokens", {1, max_tokens});
  if (!input) return input.error();
  const auto output = number_from(fields[2], "GeneratedTokens", {0, max_tokens});
  if (!output) return output.error();
  return trace_line{.timestamp = *time,
                    .input_tokens = static_cast<std::uint32_t>(*input),
                    .output_tokens = static_cast<std::uint32_t>(*output)};
}

}  // namespace yolk::simulation
