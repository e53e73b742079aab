#pragma once

namespace yolk::cli {

constexpr const char* version() {
  return YOLK_VERSION;
}

}  // namespace yolk::cli
