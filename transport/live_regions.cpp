#include "transport/live_regions.hpp"

#include <mutex>
#include <random>
#include <shared_mutex>
#include <unordered_set>

namespace yolk::transport::live_regions {

namespace {

struct table {
  std::random_device entropy;
  const std::uint64_t process = std::uint64_t{entropy()} << 32;
  std::shared_mutex guard;
  std::unordered_set<std::uint64_t> alive;
};

table& the_table() {
  static table only;
  return only;
}

constexpr std::uint64_t process_half = 0xffffffff00000000ull;

}  // namespace

std::uint64_t add() {
  auto& regions = the_table();
  const std::unique_lock lock(regions.guard);
  for (;;) {
    const std::uint64_t nonce = regions.process | regions.entropy() | 1;
    if (regions.alive.insert(nonce).second) return nonce;
  }
}

void remove(std::uint64_t nonce, const std::function<void()>& unmap) {
  auto& regions = the_table();
  const std::unique_lock lock(regions.guard);
  regions.alive.erase(nonce);
  unmap();
}

bool hold(std::uint64_t nonce, const std::function<void()>& map) {
  auto& regions = the_table();
  const std::shared_lock lock(regions.guard);
  if ((nonce & process_half) == regions.process && !regions.alive.contains(nonce)) return false;
  map();
  return true;
}

}  // namespace yolk::transport::live_regions
