#include "model/json_fields.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

namespace yolk::model {

using nlohmann::json;

namespace {

constexpr std::size_t shown_characters = 60;

/// Follows the parser's events and remembers the first thing that is wrong beside syntax.
class structure_check {
 public:
  structure_check(std::string_view name, const json_limits& limits) : name_(name), limits_(limits) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (!error_.empty()) return false;
    switch (event) {
      case json::parse_event_t::object_start:
        names_.emplace_back();
        [[fallthrough]];
      case json::parse_event_t::array_start:
        if (static_cast<std::size_t>(depth) >= limits_.depth)
          error_ = std::string(name_) + ": nested deeper than " + std::to_string(limits_.depth) + " levels";
        break;
      case json::parse_event_t::object_end:
        if (!names_.empty()) names_.pop_back();
        break;
      case json::parse_event_t::key:
        if (!names_.empty() && !names_.back().insert(parsed.get_ref<const std::string&>()).second)
          error_ = std::string(name_) + ": the name " + shown(parsed) + " occurs twice in one object";
        break;
      default:
        break;
    }
    return error_.empty();
  }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  std::string_view name_;
  json_limits limits_;
  std::vector<std::set<std::string>> names_;  ///< of the objects that are open
  std::string error_;
};

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > shown_characters) text = text.substr(0, shown_characters) + "…";
  return text;
}

result<json> parse_json_object(std::string_view text, std::string_view name, const json_limits& limits) {
  structure_check check(name, limits);
  json parsed;
  try {
    parsed = json::parse(text.begin(), text.end(), [&](int depth, json::parse_event_t event, json& value) {
      return check(depth, event, value);
    });
  } catch (const json::exception& error) {
    if (!check.error().empty()) return core::failure<errc>{errc::malformed, check.error()};
    return core::failure<errc>{errc::malformed, std::string(name) + ": not JSON: " + error.what()};
  }
  if (!check.error().empty()) return core::failure<errc>{errc::malformed, check.error()};
  if (!parsed.is_object())
    return core::failure<errc>{errc::malformed,
                               std::string(name) + ": not a JSON object but " + shown(parsed)};
  return parsed;
}

result<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    return core::failure<errc>{errc::not_found, path.string() + ": no such file"};
  if (!std::filesystem::is_regular_file(status))
    return core::failure<errc>{errc::io, path.string() + ": not a file"};
  std::ifstream in(path, std::ios::binary);
  if (!in) return core::failure<errc>{errc::io, path.string() + ": cannot be opened"};
  std::string text;
  char chunk[1 << 16];
  while (in.read(chunk, sizeof chunk), in.gcount() > 0) {
    text.append(chunk, static_cast<std::size_t>(in.gcount()));
    if (text.size() > limit_bytes)
      return core::failure<errc>{errc::malformed,
                                 path.string() + ": larger than " + std::to_string(limit_bytes) + " bytes"};
  }
  if (in.bad()) return core::failure<errc>{errc::io, path.string() + ": cannot be read"};
  return text;
}

json_fields::json_fields(const json& object, std::string file, std::string prefix)
    : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {}

void json_fields::fail(errc code, const std::string& field, const std::string& what) {
  if (!failure_) failure_ = core::failure<errc>{code, file_ + ": " + prefix_ + field + ": " + what};
}

const json* json_fields::find(const char* field) const {
  const auto at = object_.find(field);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::uint32_t json_fields::integer(const char* field, integer_range range,
                                   std::optional<std::uint32_t> missing) {
  const json* value = find(field);
  if (value == nullptr) {
    if (!missing) fail(errc::malformed, field, "is missing");
    return missing.value_or(0);
  }
  const bool fits = value->is_number_unsigned() && value->get<std::uint64_t>() >= range.low &&
                    value->get<std::uint64_t>() <= range.high;
  if (fits) return static_cast<std::uint32_t>(value->get<std::uint64_t>());
  fail(errc::malformed, field,
       shown(*value) + " is not an integer from " + std::to_string(range.low) + " to " +
           std::to_string(range.high));
  return missing.value_or(0);
}

double json_fields::number(const char* field, number_range range, std::optional<double> missing) {
  const json* value = find(field);
  if (value == nullptr) {
    if (!missing) fail(errc::malformed, field, "is missing");
    return missing.value_or(range.low);
  }
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= range.low && number <= range.high) return number;
  }
  fail(errc::malformed, field,
       shown(*value) + " is not a number from " + number_text(range.low) + " to " + number_text(range.high));
  return missing.value_or(range.low);
}

bool json_fields::flag(const char* field, bool missing) {
  const json* value = find(field);
  if (value == nullptr) return missing;
  if (value->is_boolean()) return value->get<bool>();
  fail(errc::malformed, field, shown(*value) + " is neither true nor false");
  return missing;
}

std::string json_fields::text(const char* field, const std::optional<std::string>& missing) {
  const json* value = find(field);
  if (value == nullptr) {
    if (!missing) fail(errc::malformed, field, "is missing");
    return missing.value_or("");
  }
  if (value->is_string()) return value->get<std::string>();
  fail(errc::malformed, field, shown(*value) + " is not a string");
  return missing.value_or("");
}

}  // namespace yolk::model
