#!/usr/bin/env python3
"""Measures what the way between processes costs a request: the same short prompts, answered in turns by one process and by
three (conductor and gateway; prefill and cache; decode) on this machine. First token: placement and prefill order over the
wire. Second: reservation, push of the KV and handoff, too. Medians of many; the difference is the control messages' share,
since both compute the same.

    scripts/build.sh release yolk && python3 bench/serve/control_bench.py --yolk build/release/yolk
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

from servers import free_port, server
from streams import run, stream


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--yolk", required=True, help="the program")
    parser.add_argument("--requests", type=int, default=300, help="of each kind")
    return parser.parse_args()


@contextlib.contextmanager
def one_process(yolk, logs):
    alone = server("one process", [yolk, "serve", "--port", "{port}"], os.path.join(logs, "alone"))
    try:
        alone.wait_until_healthy()
        yield alone
    finally:
        alone.stop()


def until_whole(head, limit_seconds=60.0):
    """Until a request is answered: the head is healthy before the others have joined it."""
    head.wait_until_healthy()
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, RuntimeError):
            run([stream(head.port, "hello", 2)])
            return
    raise RuntimeError("the three processes do not become one server")


@contextlib.contextmanager
def three_processes(yolk, logs):
    secret = os.path.join(logs, "secret")
    with open(secret, "w", encoding="ascii") as file:
        file.write(os.urandom(32).hex())
    door = f"127.0.0.1:{free_port()}"
    node = [yolk, "node", "--secret-file", secret, "--role"]
    head = server("head", [*node, "conductor,gateway", "--listen", door, "--port", "{port}"], os.path.join(logs, "head"))
    others = []
    try:
        for roles in ("prefill,cache", "decode"):
            with open(os.path.join(logs, roles), "wb") as log:
                others.append(subprocess.Popen([*node, roles, "--join", door], stdout=log, stderr=log))
        until_whole(head)
        yield head
    finally:
        for process in others:
            process.terminate()
        for process in others:
            process.wait(30)
        head.stop()


def measure(where, number):
    """Seconds to the first and to the second token of one request whose prompt is new."""
    one = stream(where.port, f"{number:06d} It was a dark evening, and the", 3)
    run([one])
    return one.times[0] - one.began, one.times[1] - one.began


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as logs, one_process(options.yolk, logs) as alone, \
            three_processes(options.yolk, logs) as cluster:  # fmt: skip
        seen = {alone: [], cluster: []}
        for number in range(options.requests + 10):
            for where, times in seen.items():
                times.append(measure(where, number))
    print("| | one process | three | added |")
    print("|---|---|---|---|")
    for index, name in enumerate(("first token", "second token")):
        for share, quantile in ((50, statistics.median), (90, lambda all_: sorted(all_)[int(0.9 * len(all_))])):
            at = [1e3 * quantile([times[index] for times in seen[where][10:]]) for where in (alone, cluster)]
            print(f"| {name}, P{share} | {at[0]:.2f} ms | {at[1]:.2f} ms | {at[1] - at[0]:.2f} ms |")


if __name__ == "__main__":
    sys.exit(main())
