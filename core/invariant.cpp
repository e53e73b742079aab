#include "core/invariant.hpp"

#include <cstdio>
#include <cstdlib>

namespace yolk::core {

void invariant_failed(const char* condition, const char* values, const std::string& shown, const char* file,
                      int line) {
  std::fprintf(stderr, "yolk: invariant broken at %s:%d: %s", file, line, condition);
  if (values[0] != '\0') std::fprintf(stderr, " [%s =%s]", values, shown.c_str());
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace yolk::core
