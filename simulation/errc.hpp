#pragma once

#include "core/result.hpp"

namespace yolk::simulation {

enum class errc { unreadable, malformed, stuck, cannot_write };
template <class T>
using result = core::result<T, errc>;

}  // namespace yolk::simulation
