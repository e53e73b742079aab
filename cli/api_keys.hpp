#pragma once

#include <map>
#include <string>

#include "core/result.hpp"

namespace yolk::cli {

enum class errc { unreadable, malformed };

/// A file of API keys: one "KEY [TENANT]" a line, '#' begins a comment. A key without a tenant is its own
/// tenant.
core::result<std::map<std::string, std::string>, errc> read_api_keys(const std::string& path);

}  // namespace yolk::cli
