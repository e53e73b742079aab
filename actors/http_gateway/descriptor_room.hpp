#pragma once

#include <cstdint>

namespace yolk::actors {

/// enough: a client is served. little: it is told that there are too many. none: it is closed without a word,
/// what is left being the process's own.
enum class descriptor_room : std::uint8_t { enough, little, none };

/// For a socket that was just accepted, where the process may have `limit` descriptors. The system gives out
/// the lowest free number, so all below `socket` are taken, whoever has them.
descriptor_room room_at(int socket, std::uint64_t limit);

/// The process's present limit (RLIMIT_NOFILE).
std::uint64_t descriptor_limit();

/// Whether the process could open one more just now. `any_open`: of its descriptors.
bool can_open_another(int any_open);

}  // namespace yolk::actors
