#!/usr/bin/env python3
"""Holds every include line to "Who may include whom" (docs/architecture.md): rooms include downward only, a third
party's headers appear in the rooms that wrap it, and the actors meet in messages/ alone.

Usage: check_layers.py [ROOT]    prints file:line: what, and which rule it breaks; exits 1 if there is any.
"""
import os
import re
import sys

from source_tree import files_ending

# What a room uses. It may also include what those rooms use, and itself. Everyone may use core.
USES = {
    "core": [],
    "messages": ["core"],
    "kvcache": ["core"],
    "gpu": ["core"],
    "scheduling": ["core"],
    "http": ["core"],
    "transport": ["messages", "kvcache"],
    "model": ["gpu", "kvcache"],
    "actors": ["messages", "kvcache", "transport", "gpu", "http", "model", "scheduling"],
    "simulation": ["actors"],
    "cli": ["actors", "simulation"],
}
# These stand outside: they may include any room.
OUTSIDE = {"tests": ["tests"], "bench": ["bench", "tests"]}

# (name, what its headers look like, the folders that may include them; tests and bench may include any)
THIRD_PARTIES = [
    ("CAF", r"caf/", ["messages", "actors", "simulation"]),
    ("UCX", r"uc[pstm]/", ["transport"]),
    ("CUDA", r"(cuda|cublas|cudnn|nvrtc|nvtx|cutlass|cute|cub/|thrust/|cooperative_groups|mma\.h|nv/|curand|driver_types\.h)",
     ["gpu/cuda"]),
    ("Cap'n Proto", r"(capnp|kj)/", ["messages"]),
    ("prometheus-cpp", r"prometheus/", ["actors"]),
    ("nlohmann/json", r"nlohmann/", ["http", "model", "actors", "simulation"]),
    ("PCRE2", r"pcre2(posix)?\.h$", ["model"]),
    ("utf8proc", r"utf8proc\.h$", ["model"]),
    ("xxHash", r"xxh(ash|3|_x86dispatch)\.h$", ["kvcache"]),
    ("liburing", r"liburing\.h$", ["kvcache"]),
    ("OpenSSL", r"openssl/", ["actors"]),
    ("libcurl", r"curl/", ["actors"]),
    ("CLI11", r"CLI/", ["cli"]),
    ("doctest", r"doctest/", []),
    ("Google Benchmark", r"benchmark/", []),
]
# Headers that belong to nobody: the C++ library (no dot, no slash), the compiler, libc and Linux.
SYSTEM = re.compile(
    r"[a-z0-9_]+$|(sys|linux|netinet|arpa|net|asm|bits|sanitizer)/|"
    r"(immintrin|x86intrin|cpuid|arm_neon|arm_sve|unistd|fcntl|errno|signal|poll|pthread|sched|semaphore|time|stdio|"
    r"stdlib|string|strings|stdint|stddef|stdbool|stdarg|limits|float|math|assert|ctype|inttypes|netdb|dlfcn|link|"
    r"dirent|termios|getopt|numa|numaif|execinfo|ucontext|malloc|locale|wchar|spawn|syslog|pwd|grp|glob|ftw)\.h$")

SOURCES = (".hpp", ".cpp", ".h", ".c", ".inl", ".cu", ".cuh", ".capnp")
INCLUDE = re.compile(r'\s*#\s*include(?:_next)?\s*([<"])([^>"]+)[>"]')
CAPNP_IMPORT = re.compile(r'\bimport\s+"([^"]+)"')


def closure(room):
    reached = {room, "core"}
    for used in USES[room]:
        reached |= closure(used)
    return reached


MAY_INCLUDE = {room: closure(room) for room in USES}
MAY_INCLUDE.update({folder: set(USES) | set(own) for folder, own in OUTSIDE.items()})


def actor_of(path):
    """The actor whose file this is; None for the files that actors/ shares, and elsewhere."""
    parts = path.split("/")
    return parts[1] if parts[0] == "actors" and len(parts) > 2 else None


def check_actors(path, header):
    """Files of one actor do not include another's: they meet in messages/. Two places put actors together instead of
    being one: the supervisor starts the others, by the header that is named as they are; and a shared .cpp file."""
    theirs, own = actor_of(header), actor_of(path)
    if theirs is None or theirs == own:
        return None
    if own == "supervisor" and header == f"actors/{theirs}/{theirs}.hpp":
        return None
    if own is None:
        if not path.startswith("actors/") or path.endswith(".cpp"):
            return None
        return f"a header that actors share includes the {theirs}'s"
    return f"the {own} includes the {theirs}'s file: actors meet in messages/"


def check_own_header(room, path, header, root):
    target = header.split("/")[0]
    if target not in USES and target not in OUTSIDE:
        return "includes are rooted at the repository (room/file.hpp)"
    if target not in MAY_INCLUDE[room]:
        return f"{room} may not include {target}; it may include {', '.join(sorted(MAY_INCLUDE[room] - {room}))}"
    exists = os.path.exists(os.path.join(root, header))
    if header.endswith(".capnp.h"):
        exists = os.path.exists(os.path.join(root, header[:-2]))
    if not exists:
        return "no such file in the repository"
    return check_actors(path, header)


def check_foreign_header(room, path, header):
    for name, pattern, folders in THIRD_PARTIES:
        if not re.match(pattern, header):
            continue
        if room in OUTSIDE or any(path.startswith(folder + "/") for folder in folders):
            return None
        return f"{name}'s headers belong to {' and '.join(folders) or 'tests and bench'} alone"
    if SYSTEM.match(header):
        return None
    return "a header of nobody known: say in scripts/check_layers.py whose it is and which rooms may include it"


def check_import(room, path, header, root):
    """Of a schema: another schema of messages/, or one that comes with Cap'n Proto."""
    if room != "messages":
        return "schemas belong to messages/"
    if header.startswith("/capnp/"):
        return None
    target = header[1:] if header.startswith("/") else os.path.normpath(os.path.join(os.path.dirname(path), header))
    if target.split("/")[0] != "messages" or not os.path.exists(os.path.join(root, target)):
        return "a schema imports schemas of messages/ alone"
    return None


def check_line(room, path, line, root):
    """(header, broken rule or None) for each header that the line names."""
    if path.endswith(".capnp"):
        code = line.split("#", 1)[0]
        return [(header, check_import(room, path, header, root)) for header in CAPNP_IMPORT.findall(code)]
    match = INCLUDE.match(line)
    if not match:
        return []
    header = match.group(2)
    is_ours = match.group(1) == '"' or header.split("/")[0] in USES
    if is_ours:
        return [(header, check_own_header(room, path, header, root))]
    return [(header, check_foreign_header(room, path, header))]


def check_tree(root):
    problems = []
    for path in files_ending(root, SOURCES):
        room = path.split("/")[0]
        if room not in MAY_INCLUDE:
            continue
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                for header, broken in check_line(room, path, line, root):
                    if broken:
                        problems.append(f"{path}:{number}: {header}: {broken}")
    return problems


def main(arguments):
    root = arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    problems = check_tree(root)
    for problem in problems:
        print(problem)
    print(f"check_layers: {len(problems)} broken rules" if problems else "check_layers: every include points downward")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
