#pragma once

#include <memory>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/host/host_platform.hpp"
#include "tests/model/reference_platform.hpp"

namespace yolk::model::testing {

/// Every platform that a result must hold on: the reference, and the host in each instruction set that this
/// CPU has, with more than one thread.
inline std::vector<std::shared_ptr<gpu::platform>> test_platforms() {
  std::vector<std::shared_ptr<gpu::platform>> out = {std::make_shared<reference_platform>()};
  for (const gpu::host::instruction_set isa : gpu::host::available_instruction_sets())
    out.push_back(std::move(*gpu::host::make_host_platform({.thread_count = 2, .force_isa = isa})));
  return out;
}

}  // namespace yolk::model::testing
