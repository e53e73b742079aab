#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "http/api_error.hpp"

namespace yolk::http {

struct json_limits {
  std::size_t max_depth = 32;
  /// A DOM takes some 16 to 100 bytes a value whatever the text took; this bounds what a 16 MiB body can grow
  /// into.
  std::size_t max_values = 4 * 1024 * 1024;
};

/// Reads a request's body, which must be one JSON object, into `root`. What is no JSON (NaN and Infinity are
/// none) is a 400 with the byte where reading stopped and the field it stopped in. Of a key given twice the
/// last value counts.
std::optional<api_error> read_json_object(std::string_view body, const json_limits& limits,
                                          nlohmann::json& root);

}  // namespace yolk::http
