#!/usr/bin/env python3
"""Measures `yolk serve` end to end over HTTP, against another server in the same run, and against what the machine
can do. scripts/bench.sh builds what is needed and calls this; docs/performance.md explains the figures.

Both servers run all the time (one that waits takes no CPU) and are measured in turns, round after round: what else
the machine does meets both alike. A ratio is the median of the rounds' ratios; a figure is the median of its rounds."""

import argparse
import contextlib
import json
import os
import random
import shlex
import signal
import sys
import tempfile

import limits
import report
import workloads
from servers import server, usable_cores


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--yolk", required=True, help="the program")
    parser.add_argument("--model", required=True, help="a Hugging Face folder")
    parser.add_argument("--yolk-arguments", default="", help="more arguments for `yolk serve`")
    parser.add_argument("--peer", default="", help="llama-server, or a command that runs it; without: Yolk alone")
    parser.add_argument("--gguf", help="the same weights for the peer")
    parser.add_argument("--limits", default="", help="host_kernels_bench, which measures the machine; without: no shares")
    parser.add_argument("--kv-tokens", type=int, default=32768, help="KV that each server may hold, all pools together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--short", type=int, default=512, help="tokens of the shorter prompt")
    parser.add_argument("--long", type=int, default=2048, help="tokens of the longer prompt")
    parser.add_argument("--tail", type=int, default=16, help="new tokens after a cached prompt")
    parser.add_argument("--streams", default="1,4,8")
    parser.add_argument("--tokens", type=int, default=96, help="that each stream decodes")
    parser.add_argument("--only", default="prefill,decode,gap,busy", help="parts to measure")
    parser.add_argument("--nice", type=int, default=0, help="added to all processes' niceness, alike")
    parser.add_argument("--seed", type=int, default=1, help="of the prompts")
    parser.add_argument("--quick", action="store_true", help="small numbers, for a tiny model: shows that all of it works")
    parser.add_argument("--json", help="also write all rounds' figures to this file")
    options = parser.parse_args()
    if options.peer and not options.gguf:
        parser.error("--peer needs --gguf")
    if options.quick:
        options.rounds, options.short, options.long, options.tail, options.tokens = 1, 20, 60, 4, 24
        options.streams, options.kv_tokens = "1,2", 16384
    options.streams = [int(count) for count in options.streams.split(",")]
    options.only = set(options.only.split(","))
    return options


def yolk_command(options, shape):
    # The same room for KV as the peer: a quarter for prefill, a half for decode, a quarter for the cache.
    kv = options.kv_tokens * shape.kv_bytes
    return [
        options.yolk, "serve", "--model", options.model, "--port", "{port}", "--prefill-kv", str(kv // 4),
        "--decode-kv", str(kv // 2), "--cache-dram", str(kv // 4), *shlex.split(options.yolk_arguments),
    ]  # fmt: skip


def peer_command(options):
    cores = str(usable_cores())
    return [
        *shlex.split(options.peer), "-m", options.gguf, "-t", cores, "-tb", cores, "-c", str(options.kv_tokens), "-np", "8",
        "-kvu", "--host", "127.0.0.1", "--port", "{port}",
    ]  # fmt: skip


def parts_of_a_round(options, make):
    """(part, function of a server) with this round's prompts, the same for every server."""
    if "prefill" in options.only:
        shorts, long = [make.fresh(options.short) for _ in range(3)], make.fresh(options.long)
        tails = [make.fresh(options.tail) for _ in range(3)]
        yield "prefill", lambda s: workloads.prefill(s, shorts, long, tails)
    if "decode" in options.only:
        for count in options.streams:
            all_prompts = [make.fresh(32) for _ in range(count)]
            yield f"decode {count}", lambda s, p=all_prompts: workloads.decode(s, p, options.tokens)
    if "gap" in options.only:
        quiet, arriving = make.fresh(32), make.fresh(options.long)
        yield "gap", lambda s: workloads.gap_under_prompt(s, quiet, arriving, min(33, options.tokens))
    if "busy" in options.only:
        first, second = make.fresh(32), make.fresh(32)
        yield "busy", lambda s: workloads.decode_beside_busy_process(s, first, second, options.tokens)


def measure(options, servers, machine):
    make = workloads.prompts(random.Random(options.seed), machine.shape.vocabulary)
    for one in servers:  # the first request finds cold pages everywhere
        workloads.first_token(one, make.fresh(options.short))
    rounds = []
    for number in range(options.rounds):
        figures = {one.name: {} for one in servers}
        for part, function in parts_of_a_round(options, make):
            machine.measure()
            # Who is first changes from round to round.
            for one in servers if number % 2 == 0 else reversed(servers):
                for name, value in function(one).items():
                    key = f"{part.replace(' ', '_')}_{name}" if part.startswith("decode") else name
                    figures[one.name][key] = value
                one.note_memory()
                print(f"round {number + 1}, {part}, {one.name}", file=sys.stderr)
        rounds.append(figures)
    return rounds


def raise_priority(nice):
    """Of this process and all that it starts. Where the kernel shares the cores among sessions first (autogroup),
    niceness counts within a session only, so the session gets the same."""
    os.nice(nice)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:
        group.write(str(nice))


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are ended, too
    if options.nice:
        raise_priority(options.nice)
    shape = limits.model_shape(options.model)
    machine = limits.machine_limits(options.limits, usable_cores(), shape)
    with contextlib.ExitStack() as running, tempfile.TemporaryDirectory() as logs:
        servers = []
        for name, command in [("yolk", yolk_command(options, shape)), ("peer", peer_command(options) if options.peer else None)]:
            if command:
                servers.append(server(name, command, os.path.join(logs, name)))
                running.callback(servers[-1].stop)
        for one in servers:
            one.wait_until_healthy()
        rounds = measure(options, servers, machine)
        memory = {one.name: one.peak_bytes for one in servers}
        restarts = servers[0].counted("yolk_actor_restarts_total")
    if restarts:
        raise RuntimeError(f"{restarts:.0f} actors of Yolk were started again during the measurement: no figure counts")
    print(report.table(options, rounds, memory, machine))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"rounds": rounds, "memory": memory, "limits": machine.figures()}, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
