"""check_layers.py finds an include that breaks a rule, and lets the others pass."""
import unittest

from tree_case import TreeCase

ROOM_HEADERS = {f"{room}/thing.hpp": "#pragma once\n" for room in (
    "core", "messages", "kvcache", "gpu", "scheduling", "http", "transport", "model", "actors", "simulation", "cli",
    "tests", "bench")}

# Who may include whom, written out once more: what the closure in the script must come to.
ALLOWED = {
    "core": "",
    "messages": "core",
    "kvcache": "core",
    "gpu": "core",
    "scheduling": "core",
    "http": "core",
    "transport": "core messages kvcache",
    "model": "core gpu kvcache",
    "actors": "core messages kvcache gpu scheduling http transport model",
    "simulation": "core messages kvcache gpu scheduling http transport model actors",
    "cli": "core messages kvcache gpu scheduling http transport model actors simulation",
    "tests": "core messages kvcache gpu scheduling http transport model actors simulation cli",
    "bench": "core messages kvcache gpu scheduling http transport model actors simulation cli tests",
}


class Layers(TreeCase):
    script = "check_layers"

    def broken_count(self, files):
        return len(self.run_on(files)[1].splitlines()) - 1  # but for the summary

    def with_line(self, path, line):
        return {**ROOM_HEADERS, path: f"// a comment\n{line}\n"}

    def test_rooms_include_downward_only(self):
        files, expected = dict(ROOM_HEADERS), set()
        for room, allowed in ALLOWED.items():
            for target in ALLOWED:
                files[f"{room}/to_{target}.cpp"] = f'// a comment\n#include "{target}/thing.hpp"\n'
                if target != room and target not in allowed.split():
                    expected.add(f"{room}/to_{target}.cpp:2: {target}/thing.hpp: {room} may not include {target}")
        self.fails(files, *expected)
        self.assertEqual(self.broken_count(files), len(expected))

    def test_a_third_partys_headers_stay_in_their_room(self):
        headers = {
            "caf/all.hpp": "messages actors simulation",
            "ucp/api/ucp.h": "transport",
            "cuda_runtime.h": "gpu/cuda",
            "cublasLt.h": "gpu/cuda",
            "capnp/message.h": "messages",
            "kj/array.h": "messages",
            "prometheus/registry.h": "actors",
            "nlohmann/json.hpp": "http model actors simulation",
            "pcre2.h": "model",
            "utf8proc.h": "model",
            "xxhash.h": "kvcache",
            "liburing.h": "kvcache",
            "openssl/ssl.h": "actors",
            "curl/curl.h": "actors",
            "CLI/CLI.hpp": "cli",
            "doctest/doctest.h": "",
            "benchmark/benchmark.h": "",
        }
        files, expected = {}, set()
        for number, (header, folders) in enumerate(headers.items()):
            for folder in (*ALLOWED, "gpu/cuda", "gpu/host"):
                files[f"{folder}/user_{number}.hpp"] = f"#pragma once\n#include <{header}>\n"
                if folder not in folders.split() and folder not in ("tests", "bench"):
                    expected.add(f"{folder}/user_{number}.hpp:2: {header}: ")
        self.fails(files, "headers belong to messages and actors and simulation alone", *expected)
        self.assertEqual(self.broken_count(files), len(expected))

    def test_standard_and_system_headers_pass_and_unknown_ones_do_not(self):
        for header in ("vector", "sys/mman.h", "immintrin.h", "unistd.h"):
            self.passes(self.with_line("gpu/user.cpp", f"#include <{header}>"))
        self.fails(self.with_line("gpu/user.cpp", "#include <fmt/core.h>"), "gpu/user.cpp:2: fmt/core.h", "nobody known")
        self.fails(self.with_line("gpu/user.cpp", "#  include <zlib.h>"), "gpu/user.cpp:2: zlib.h")

    def test_generated_headers_follow_their_schema(self):
        schema = {"messages/kv.capnp": "@0xd;\n"}
        line = '#include "messages/kv.capnp.h"'
        for room in ("messages", "transport", "actors", "simulation"):
            self.passes({**self.with_line(f"{room}/user.cpp", line), **schema})
        for room in ("core", "kvcache", "scheduling", "http", "gpu", "model"):
            self.fails({**self.with_line(f"{room}/user.cpp", line), **schema}, f"{room} may not include messages")
        self.fails(self.with_line("actors/user.cpp", line), "no such file")

    def test_schemas_import_schemas_of_messages_alone(self):
        line = 'using Common = import "{}"; # import "core/no.capnp"'
        common = {"messages/common.capnp": "@0xd;\n", "core/other.capnp": "@0xe;\n"}
        for target in ("common.capnp", "/messages/common.capnp", "/capnp/c++.capnp"):
            self.passes({**self.with_line("messages/kv.capnp", line.format(target)), **common})
        for target in ("/core/other.capnp", "missing.capnp", "../core/other.capnp"):
            self.fails({**self.with_line("messages/kv.capnp", line.format(target)), **common}, "messages/kv.capnp:2: ")
        self.fails({**self.with_line("core/kv.capnp", line.format("/messages/common.capnp")), **common},
                   "schemas belong to messages/")

    def test_actors_do_not_include_each_other(self):
        tree = {f"actors/{actor}/{name}.hpp": "" for actor in ("conductor", "cache_shard", "supervisor")
                for name in (actor, "state")}
        tree["actors/shared.hpp"] = ""

        def files(path, header):
            return {**tree, path: f'#include "{header}"\n'}
        self.passes(files("actors/conductor/x.cpp", "actors/conductor/state.hpp"))
        self.passes(files("actors/conductor/x.cpp", "actors/shared.hpp"))
        self.passes(files("tests/actors/x.cpp", "actors/conductor/state.hpp"))
        self.fails(files("actors/conductor/x.cpp", "actors/cache_shard/cache_shard.hpp"),
                   "actors/conductor/x.cpp:1: ", "the conductor includes the cache_shard's file")
        self.fails(files("actors/cache_shard/x.hpp", "actors/supervisor/supervisor.hpp"), "actors meet in messages/")
        # Who starts the others names them; their insides are not its business.
        self.passes(files("actors/supervisor/x.cpp", "actors/conductor/conductor.hpp"))
        self.fails(files("actors/supervisor/x.cpp", "actors/conductor/state.hpp"), "the supervisor includes")
        # A shared header must not be the way round.
        self.fails(files("actors/common.hpp", "actors/conductor/conductor.hpp"), "a header that actors share")
        self.passes(files("actors/start.cpp", "actors/conductor/conductor.hpp"))

    def test_includes_are_rooted_and_exist(self):
        self.fails(self.with_line("core/user.cpp", '#include "thing.hpp"'), "rooted at the repository")
        self.fails(self.with_line("core/user.cpp", '#include "../core/thing.hpp"'), "rooted at the repository")
        self.fails(self.with_line("core/user.cpp", '#include "core/missing.hpp"'), "no such file")
        self.fails(self.with_line("core/user.cpp", "#include <actors/thing.hpp>"), "core may not include actors")

    def test_build_folders_and_comments_are_not_read(self):
        self.passes({**ROOM_HEADERS, "build/core/user.cpp": '#include "actors/thing.hpp"\n',
                     "core/user.cpp": '// #include "actors/thing.hpp"\n'})


if __name__ == "__main__":
    unittest.main()
