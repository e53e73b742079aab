#pragma once

#include <memory>
#include <vector>

#include "gpu/device.hpp"
#include "tests/model/reference_platform.hpp"

namespace yolk::model::testing {

/// Every platform that a result must hold on.
inline std::vector<std::shared_ptr<gpu::platform>> test_platforms() {
  return {std::make_shared<reference_platform>()};
}

}  // namespace yolk::model::testing
