#pragma once

#include "core/result.hpp"

namespace yolk::model {

enum class errc { not_found, io, malformed, unsupported, inconsistent, out_of_memory };
/// The message names the file and the field.
template <class T>
using result = core::result<T, errc>;

}  // namespace yolk::model
