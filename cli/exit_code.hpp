#pragma once

namespace yolk::cli {

// How every command of yolk ends. 0: as it was asked to.
inline constexpr int exit_failed = 1;  ///< it could not do what it was asked, e.g. the port is taken
inline constexpr int exit_usage = 2;   ///< the command line, an option's value or a file of options is wrong

}  // namespace yolk::cli
