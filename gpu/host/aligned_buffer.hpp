#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace yolk::gpu::host {

/// Memory that starts on a cache line, or on a huge page if it is that large. Not initialised.
class aligned_buffer {
 public:
  aligned_buffer() = default;
  /// Null data if there is no memory.
  static aligned_buffer allocate(std::size_t bytes);

  [[nodiscard]] void* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct free_memory {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, free_memory> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace yolk::gpu::host
