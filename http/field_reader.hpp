#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "http/api_error.hpp"

namespace yolk::http {

/// The values that a number may have; the text of it goes into error messages.
struct number_range {
  double low = 0;
  double high = 0;
  bool above_low = false;  ///< low itself is refused
};

struct integer_range {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// A value as an error message shows it: short, whatever the client sent.
std::string describe(const nlohmann::json& value);

/// Takes typed fields out of a JSON object. Absent and null are the same: the target keeps its default. The
/// first fault becomes a 400 that names the field, its value and its limit; after it every call does nothing,
/// so that a caller reads all fields in one go and looks once. Owned by one parsing function; the object
/// outlives it.
class field_reader {
 public:
  /// `prefix` is what stands before a field's name in messages: "messages[2]." for a nested object.
  explicit field_reader(const nlohmann::json& object, std::string prefix = "");

  /// Null when absent, null, or after a fault.
  [[nodiscard]] const nlohmann::json* find(std::string_view name) const;
  /// Each returns true when the field was there and right.
  bool boolean(std::string_view name, bool& target);
  bool number(std::string_view name, const number_range& range, float& target);
  bool integer(std::string_view name, const integer_range& range, std::int64_t& target);
  bool count(std::string_view name, const integer_range& range, std::uint32_t& target);
  bool text(std::string_view name, std::size_t max_bytes, std::string& target);
  bool object(std::string_view name, const nlohmann::json*& target);
  bool ids(std::string_view name, std::size_t max_count, std::vector<core::token_id>& target);

  /// "<name> must be <wanted>, got <value>".
  void refuse(std::string_view name, std::string_view wanted, const nlohmann::json& value);
  /// "<name> <why>": the field asks for what this server does not do.
  void unsupported(std::string_view name, std::string_view why);
  void fail(std::string_view name, std::string message);
  void adopt(const std::optional<api_error>& error);

  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] const std::optional<api_error>& error() const { return error_; }

 private:
  [[nodiscard]] std::string full_name(std::string_view name) const;

  const nlohmann::json& object_;
  std::string prefix_;
  std::optional<api_error> error_;
};

/// The value as an integer: 40 and 40.0 are, 40.5, true and "40" are not.
std::optional<std::int64_t> as_integer(const nlohmann::json& value);
/// A list of token ids; an error naming the first element that is none.
std::optional<api_error> read_ids(const nlohmann::json& list, const std::string& name,
                                  std::vector<core::token_id>& ids);

}  // namespace yolk::http
