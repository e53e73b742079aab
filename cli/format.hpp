#pragma once

#include <cstdint>
#include <string>

namespace yolk::cli {

/// "487 M", "3.3 M".
std::string short_count(std::uint64_t count);
/// "512 MiB", "24 KiB".
std::string short_bytes(std::uint64_t bytes);

}  // namespace yolk::cli
