#include "gpu/host/aligned_buffer.hpp"

#include <sys/mman.h>

namespace yolk::gpu::host {

namespace {
constexpr std::size_t line_bytes = 64;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
}  // namespace

aligned_buffer aligned_buffer::allocate(std::size_t bytes) {
  const std::size_t alignment = bytes >= huge_page_bytes ? huge_page_bytes : line_bytes;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  aligned_buffer buffer;
  if (rounded < bytes) return buffer;
  buffer.memory_.reset(std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded));
  if (buffer.memory_ == nullptr) return buffer;
  buffer.bytes_ = rounded;
  // Streaming weights through 4 KiB pages costs a page walk every 4 KiB. Only a hint: failure is no harm.
  if (alignment == huge_page_bytes) madvise(buffer.memory_.get(), rounded, MADV_HUGEPAGE);
  return buffer;
}

}  // namespace yolk::gpu::host
