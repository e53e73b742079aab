#pragma once

#include <cstdint>

#include "core/result.hpp"

namespace yolk::scheduling {

enum class errc : std::uint8_t { too_few_samples, bad_sample, unknown_name, infeasible };

template <class T>
using result = core::result<T, errc>;

}  // namespace yolk::scheduling
