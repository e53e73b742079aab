#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace yolk::cli {

/// "487 M", "3.3 M".
std::string short_count(std::uint64_t count);
/// "512 MiB", "24 KiB".
std::string short_bytes(std::uint64_t bytes);

/// The text as a terminal may get it from somebody else: control characters but \n and \t are written out, as
/// `cat -v` does ("^[", "M-^[").
std::string visible(std::string_view utf8);

}  // namespace yolk::cli
