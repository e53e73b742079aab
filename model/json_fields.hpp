#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "model/errc.hpp"

namespace yolk::model {

struct json_limits {
  std::size_t depth = 16;
};

/// Parses a whole JSON object from an untrusted file. Refuses deeper nesting than the limit and a name that
/// occurs twice in one object (readers disagree about which one counts). `name` is the file, for errors.
result<nlohmann::json> parse_json_object(std::string_view text, std::string_view name,
                                         const json_limits& limits);

/// The whole file as text; errc::not_found when it does not exist, errc::malformed above `limit_bytes`.
result<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit_bytes);

/// Reads checked fields of a JSON object; the first failure is kept and names file, field and limit, later
/// reads then give their defaults. So a reader takes all its fields and asks once whether all went well.
class json_fields {
 public:
  json_fields(const nlohmann::json& object, std::string file, std::string prefix = {});

  struct integer_range {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
  };
  struct number_range {
    double low = 0;
    double high = 0;
  };
  /// A field that is absent or null counts as missing: it takes the default, or fails where there is none.
  std::uint32_t integer(const char* field, integer_range range, std::optional<std::uint32_t> missing = {});
  double number(const char* field, number_range range, std::optional<double> missing = {});
  bool flag(const char* field, bool missing);
  std::string text(const char* field, const std::optional<std::string>& missing = {});
  /// Whether the field is there, be it null.
  [[nodiscard]] bool contains(const char* field) const { return object_.contains(field); }
  /// Null when missing.
  [[nodiscard]] const nlohmann::json* find(const char* field) const;

  void fail(errc code, const std::string& field, const std::string& what);
  [[nodiscard]] bool failed() const { return failure_.has_value(); }
  [[nodiscard]] const core::failure<errc>& failure() const { return *failure_; }

 private:
  const nlohmann::json& object_;
  std::string file_;
  std::string prefix_;  ///< "rope_scaling." inside that object
  std::optional<core::failure<errc>> failure_;
};

/// A value as it is shown in an error: short, on one line.
std::string shown(const nlohmann::json& value);

}  // namespace yolk::model
