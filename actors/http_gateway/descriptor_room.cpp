#include "actors/http_gateway/descriptor_room.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace yolk::actors {

namespace {

/// What the rest of the process may want while it runs: links to other nodes, a worker that restarts.
std::uint64_t kept_for_others(std::uint64_t limit) {
  return std::clamp<std::uint64_t>(limit / 8, 24, 512);
}

/// Clients that can be told at one time that there are too many.
std::uint64_t kept_for_refusals(std::uint64_t limit) {
  return std::clamp<std::uint64_t>(limit / 16, 4, 64);
}

}  // namespace

descriptor_room room_at(int socket, std::uint64_t limit) {
  const std::uint64_t above = limit - std::min(limit, static_cast<std::uint64_t>(socket) + 1);
  if (above < kept_for_others(limit)) return descriptor_room::none;
  return above < kept_for_others(limit) + kept_for_refusals(limit) ? descriptor_room::little
                                                                   : descriptor_room::enough;
}

std::uint64_t descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::uint64_t>::max();
  return limit.rlim_cur;
}

bool can_open_another(int any_open) {
  const int copy = ::fcntl(any_open, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return false;
  ::close(copy);
  return true;
}

}  // namespace yolk::actors
