#pragma once

#include <cstdint>
#include <functional>

// Which regions of this process are mapped. UCX 1.13.1 crashes when a remote key is unpacked whose shared
// segment was removed meanwhile (its clean-up releases keys that it never filled in), and within one process
// a worker that dies and one that connects to it do meet. Segments are a resource of the process, hence the
// one process-wide table.
namespace yolk::transport::live_regions {

/// A region's nonce: never 0, random, and recognisable as this process's.
std::uint64_t add();
/// Runs `unmap` while no other thread can be mapping the region, which is gone afterwards.
void remove(std::uint64_t nonce, const std::function<void()>& unmap);
/// Runs `map` while the region cannot go away. False, and nothing is run, when it was this process's and has
/// gone.
[[nodiscard]] bool hold(std::uint64_t nonce, const std::function<void()>& map);

}  // namespace yolk::transport::live_regions
