#!/usr/bin/env python3
"""Yolk's transfers between two processes beside ucx_perftest's on the same link, in turns in one run:

    scripts/build.sh release pair_bench && apt-get install ucx-utils
    python3 bench/transport/perftest_ratio.py build/release/bench/transport/pair_bench [ROUNDS]

For each link and size: the median of what ucx_perftest reaches with the better of its put (get) and its tag messages, and
Yolk's put and get of one range of that size, and of as many bytes in 16 KiB ranges (a layer of a 16-token block) that do
not touch. Ratios above 1: Yolk is faster.
"""
import os
import re
import socket
import statistics
import subprocess
import sys

LINKS = {"shared memory": ("^posix", "sysv,cma,self"), "TCP loopback": ("tcp", "tcp,self")}
SIZES = (1 << 20, 4 << 20, 16 << 20)
RANGE = 16 << 10
MILLISECONDS = 400


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def perftest(test, transports, size):
    """Bytes a second, or nothing where it fails."""
    port = str(free_port())
    iterations = str(max(20, min(400, (1 << 30) // size)))
    command = ["ucx_perftest", "-t", test, "-s", str(size), "-n", iterations, "-w", "5", "-O", "4", "-p", port, "-f"]
    environment = {**os.environ, "UCX_TLS": transports, "UCX_NET_DEVICES": "lo", "UCX_LOG_LEVEL": "fatal"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": environment}
    with subprocess.Popen(command, **pipes) as server:
        try:
            client = None
            for _ in range(200):
                client = subprocess.run([command[0], "127.0.0.1", *command[1:]], timeout=60, check=False, **pipes)
                if "Connection refused" not in client.stdout:
                    break
            found = re.findall(r"^\s*(?:Final:)?\s*\d+(?:\s+[\d.]+){3}\s+([\d.]+)\s+([\d.]+)\s+\d+\s+\d+\s*$", client.stdout, re.M)
            return float(found[-1][1]) * (1 << 20) if found else None
        except subprocess.TimeoutExpired:
            return None
        finally:
            server.kill()


def pair(program, transports, way, range_bytes, ranges):
    ended = subprocess.run([program, transports, way, str(range_bytes), str(ranges), str(MILLISECONDS)], capture_output=True,
                           text=True, check=True)
    return float(ended.stdout.split()[0])


def main():
    program = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print("| link | bytes | ucx_perftest put / get | Yolk put / get | ratio | in 16 KiB ranges | of one range |")
    print("|---|---|---|---|---|---|---|")
    for link, (ours, theirs) in LINKS.items():
        for size in SIZES:
            seen = {}
            for _ in range(rounds):
                tag = perftest("tag_bw", theirs, size)
                for way, test in (("put", "ucp_put_bw"), ("get", "ucp_get")):
                    rates = [rate for rate in (tag, perftest(test, theirs, size)) if rate]
                    seen.setdefault(("peer", way), []).append(max(rates, default=float("nan")))
                    seen.setdefault(("one", way), []).append(pair(program, ours, way, size, 1))
                    seen.setdefault(("many", way), []).append(pair(program, ours, way, RANGE, size // RANGE))
            rate = {key: statistics.median(values) for key, values in seen.items()}

            def both(what, scale, form):
                return " / ".join(form.format(what(way) / scale) for way in ("put", "get"))

            print(f"| {link} | {size >> 20} MiB | {both(lambda way: rate['peer', way], 1e9, '{:.2f}')} GB/s "
                  f"| {both(lambda way: rate['one', way], 1e9, '{:.2f}')} GB/s "
                  f"| {both(lambda way: rate['one', way] / rate['peer', way], 1, '{:.2f}')} "
                  f"| {both(lambda way: rate['many', way], 1e9, '{:.2f}')} GB/s "
                  f"| {both(lambda way: rate['many', way] / rate['one', way], 1, '{:.2f}')} |", flush=True)


main()
