#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace yolk::actors {

/// The tenant whose key the Authorization header carries; nothing when it carries none of them. Takes the
/// same time for every wrong key of one length, so that a key cannot be found out byte by byte.
std::optional<std::string> tenant_of(const std::map<std::string, std::string>& keys,
                                     std::string_view authorization);

}  // namespace yolk::actors
