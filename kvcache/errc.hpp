#pragma once

#include "core/result.hpp"

namespace yolk::kvcache {

enum class errc { invalid_layout, invalid_header, verification_failed, storage_failed };
template <class T>
using result = core::result<T, errc>;

}  // namespace yolk::kvcache
