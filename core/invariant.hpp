#pragma once

#include <sstream>
#include <string>

namespace yolk::core {

[[noreturn]] void invariant_failed(const char* condition, const char* values, const std::string& shown,
                                   const char* file, int line);

template <class... Values>
std::string show_values(const Values&... values) {
  std::ostringstream out;
  ((out << ' ' << values), ...);
  return out.str();
}

}  // namespace yolk::core

/// A bug crashes in every build and prints its values: YOLK_INVARIANT(pinned <= total, pinned, total).
#define YOLK_INVARIANT(condition, ...)                                                                    \
  (static_cast<bool>(condition)                                                                           \
       ? void(0)                                                                                          \
       : ::yolk::core::invariant_failed(#condition, #__VA_ARGS__, ::yolk::core::show_values(__VA_ARGS__), \
                                        __FILE__, __LINE__))
