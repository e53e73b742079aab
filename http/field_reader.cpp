#include "http/field_reader.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace yolk::http {
namespace {

using nlohmann::json;

constexpr std::size_t max_shown_bytes = 64;
constexpr std::int64_t max_token_id = std::numeric_limits<core::token_id>::max();

std::string shown(double value) {
  char text[48];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string shown(const number_range& range) {
  if (range.above_low) return "a number above " + shown(range.low) + " and at most " + shown(range.high);
  return "a number from " + shown(range.low) + " to " + shown(range.high);
}

std::string shown(const integer_range& range) {
  return "an integer from " + std::to_string(range.low) + " to " + std::to_string(range.high);
}

}  // namespace

std::string describe(const json& value) {
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const json::string_t&>();
  if (text.size() <= max_shown_bytes) return '"' + text + '"';
  return '"' + text.substr(0, max_shown_bytes) + "...\" (" + std::to_string(text.size()) + " bytes)";
}

std::optional<std::int64_t> as_integer(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double exact =
      9007199254740992.0;  // 2^53: beyond it a double does not say which integer was meant
  if (!(std::abs(number) <= exact) || number != std::trunc(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<api_error> read_ids(const json& list, const std::string& name,
                                  std::vector<core::token_id>& ids) {
  ids.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto id = as_integer(list[i]);
    if (!id || *id < 0 || *id > max_token_id) {
      api_error error;
      error.param = name;
      error.message = name + "[" + std::to_string(i) + "] must be a token id, " +
                      shown(integer_range{0, max_token_id}) + ", got " + describe(list[i]) + ".";
      return error;
    }
    ids.push_back(static_cast<core::token_id>(*id));
  }
  return std::nullopt;
}

field_reader::field_reader(const json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

std::string field_reader::full_name(std::string_view name) const {
  return prefix_ + std::string(name);
}

const json* field_reader::find(std::string_view name) const {
  if (failed()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool field_reader::boolean(std::string_view name, bool& target) {
  const json* const value = find(name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    refuse(name, "true or false", *value);
    return false;
  }
  target = value->get<bool>();
  return true;
}

bool field_reader::number(std::string_view name, const number_range& range, float& target) {
  const json* const value = find(name);
  if (value == nullptr) return false;
  const double number = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  const bool in_range = (range.above_low ? number > range.low : number >= range.low) && number <= range.high;
  if (!in_range) {
    refuse(name, shown(range), *value);
    return false;
  }
  target = static_cast<float>(number);
  return true;
}

bool field_reader::integer(std::string_view name, const integer_range& range, std::int64_t& target) {
  const json* const value = find(name);
  if (value == nullptr) return false;
  const auto number = as_integer(*value);
  if (!number || *number < range.low || *number > range.high) {
    refuse(name, shown(range), *value);
    return false;
  }
  target = *number;
  return true;
}

bool field_reader::count(std::string_view name, const integer_range& range, std::uint32_t& target) {
  std::int64_t number = 0;
  if (!integer(name, range, number)) return false;
  target = static_cast<std::uint32_t>(number);
  return true;
}

bool field_reader::text(std::string_view name, std::size_t max_bytes, std::string& target) {
  const json* const value = find(name);
  if (value == nullptr) return false;
  if (!value->is_string() || value->get_ref<const json::string_t&>().size() > max_bytes) {
    refuse(name, "a string of at most " + std::to_string(max_bytes) + " bytes", *value);
    return false;
  }
  target = value->get_ref<const json::string_t&>();
  return true;
}

bool field_reader::object(std::string_view name, const json*& target) {
  const json* const value = find(name);
  if (value == nullptr) return false;
  if (!value->is_object()) {
    refuse(name, "an object", *value);
    return false;
  }
  target = value;
  return true;
}

bool field_reader::ids(std::string_view name, std::size_t max_count, std::vector<core::token_id>& target) {
  const json* const value = find(name);
  if (value == nullptr) return false;
  if (!value->is_array() || value->size() > max_count) {
    refuse(name, "a list of at most " + std::to_string(max_count) + " token ids", *value);
    return false;
  }
  adopt(read_ids(*value, full_name(name), target));
  return !failed();
}

void field_reader::refuse(std::string_view name, std::string_view wanted, const json& value) {
  fail(name, full_name(name) + " must be " + std::string(wanted) + ", got " + describe(value) + ".");
}

void field_reader::unsupported(std::string_view name, std::string_view why) {
  if (failed()) return;
  fail(name, full_name(name) + " " + std::string(why));
  error_->code = "unsupported_parameter";
}

void field_reader::fail(std::string_view name, std::string message) {
  if (failed()) return;
  error_.emplace();
  error_->param = full_name(name);
  error_->message = std::move(message);
}

void field_reader::adopt(const std::optional<api_error>& error) {
  if (!failed() && error) error_ = error;
}

}  // namespace yolk::http
