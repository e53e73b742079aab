#!/usr/bin/env python3
"""Prints tables of replays beside the figures that Mooncake's papers publish (docs/simulation.md).

Usage: replay_tables.py TRACE [--yolk PROGRAM] [--table placement|overload|ratio|size ...] [--limit N]
                         [--speedups 1,1.5,…] [--policies random,yolk,…]
The set-up is the preset 8xA800-llama3-70b: arrivals jittered within the trace's ticks of 3 s, seed 1. Each replay is one
process; figures are its JSON report's, and the time is the machine's.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

PRESET = "8xA800-llama3-70b"
# Mean TTFT in seconds on the conversation trace, 16 nodes (Mooncake, FAST'25); the papers' names beside ours.
PUBLISHED_TTFT = {"random": 19.65, "least_loaded": 5.27, "cache_aware": 3.58, "mooncake": 3.07}
# Rejected of some 23,000 requests at twice the speed, 8 + 8 nodes (Mooncake, arXiv 2407.00079, table 3).
PUBLISHED_REFUSED = {"baseline": 4183, "early": 3771, "predicted": 3589}
# Share of requests within TTFT 10 s and TBT 100 ms, by prefill nodes of 16 (FAST'25, figure; synthetic workload).
PUBLISHED_RATIO = {5: 77.7, 6: 97.2, 7: 99.1, 8: 99.0, 9: 99.2, 10: 98.4, 11: 86.1}
POLICIES = ["random", "round_robin", "least_loaded", "cache_aware", "mooncake", "preble", "dynamo", "llm_d", "yolk"]
RULES = ["none", "baseline", "early", "predicted", "hold"]


class Replays:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = tempfile.TemporaryDirectory()

    def cluster(self, change):
        """A cluster file: the preset, changed."""
        text = subprocess.run([self.arguments.yolk, "replay", "--show-preset", PRESET], check=True, capture_output=True)
        described = json.loads(text.stdout)
        change(described)
        path = os.path.join(self.folder.name, "cluster.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(described, file)
        return path

    def run(self, *options, cluster=PRESET):
        path = os.path.join(self.folder.name, "report.json")
        command = [self.arguments.yolk, "replay", self.arguments.trace, "--cluster", cluster, "--jitter", "3",
                   "--limit", str(self.arguments.limit), "--json", path, *map(str, options)]
        begin = time.monotonic()
        done = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(done.pid, 0)
        if status != 0:
            sys.exit(f"failed: {' '.join(command)}")
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        report["wall_seconds"] = time.monotonic() - begin
        report["cpu_seconds"] = usage.ru_utime + usage.ru_stime
        report["memory_bytes"] = usage.ru_maxrss * 1024
        return report


def table(title, heads, rows):
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def placement(replays):
    for speedup in replays.arguments.speedups:
        def rows(factor=speedup):
            best = None
            for policy in replays.arguments.policies:
                report = replays.run("--speedup", factor, "--placement", policy)
                ttft = report["ttft_seconds"]
                best = best or ttft["mean"]
                published = PUBLISHED_TTFT.get(policy)
                yield [policy, *(f"{ttft[key]:.2f}" for key in ("mean", "p50", "p90", "p99")),
                       f"{100 * report['tokens']['hit_ratio']:.1f} %", f"{ttft['mean'] / best:.3f}",
                       f"{published:.2f} ({published / PUBLISHED_TTFT['random']:.3f})" if published else ""]
        table(f"TTFT in seconds by placement, speed-up {speedup:g}",
              ["policy", "mean", "P50", "P90", "P99", "hits", "of random", "published mean (of random)"], rows())


def overload(replays):
    def rows():
        base = None
        for placing, rule in [("mooncake", rule) for rule in RULES] + [("yolk", "hold")]:
            report = replays.run("--speedup", 2, "--placement", placing, "--admission", rule)
            requests = report["requests"]
            base = requests["refused"] if rule == "baseline" else base
            published = PUBLISHED_REFUSED.get(rule)
            yield [placing, rule, str(requests["refused"]), str(requests["refused_after_first_token"]),
                   f"{100 * (requests['refused'] / base - 1):+.1f} %" if base else "",
                   f"{100 * requests['share_both_met']:.1f} %", f"{report['pools']['load_correlation']:+.2f}",
                   f"{published} ({100 * (published / PUBLISHED_REFUSED['baseline'] - 1):+.1f} %)" if published else ""]
    table("Refusals at twice the speed, TTFT 30 s, TBT 100 ms",
          ["placement", "admission", "refused", "after prefill", "against baseline", "within both targets",
           "correlation of loads", "published"], rows())


def ratio(replays):
    def rows():
        for prefill in sorted(PUBLISHED_RATIO):
            def change(described, count=prefill):
                described["nodes"][0]["count"], described["nodes"][1]["count"] = count, 16 - count
                described["slo"] = {"ttft_seconds": 10, "tbt_seconds": 0.1}
            report = replays.run("--speedup", 1.5, cluster=replays.cluster(change))
            yield [f"{prefill} + {16 - prefill}", f"{100 * report['requests']['share_both_met']:.1f} %",
                   f"{report['ttft_seconds']['mean']:.2f}", f"{1e3 * report['tbt_seconds']['mean']:.1f}",
                   f"{PUBLISHED_RATIO[prefill]} %"]
    table("Prefill and decode nodes of 16, speed-up 1.5, TTFT 10 s, TBT 100 ms",
          ["P + D", "within both targets", "mean TTFT s", "mean TBT ms", "published share (another trace)"], rows())


def size(replays):
    def rows():
        for nodes in (16, 100, 1000):
            def change(described, count=nodes):
                for entry in described["nodes"]:
                    entry["count"] = count // 2
            report = replays.run("--speedup", nodes / 16, cluster=replays.cluster(change))
            yield [str(nodes), f"{nodes / 16:g}", f"{report['virtual_seconds']:.0f}", f"{report['cpu_seconds']:.1f}",
                   f"{report['wall_seconds']:.1f}", f"{report['memory_bytes'] / 2**30:.2f} GiB",
                   f"{report['messages'] / 1e6:.1f} M"]
    table("What a replay costs", ["nodes", "speed-up", "virtual s", "CPU s", "wall s", "memory", "messages"], rows())


TABLES = {"placement": placement, "overload": overload, "ratio": ratio, "size": size}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    parser.add_argument("--yolk", default=os.path.join(root, "build", "release", "yolk"))
    parser.add_argument("--table", choices=TABLES, action="append", help="default: all")
    parser.add_argument("--limit", type=int, default=0, help="requests; 0 = all")
    parser.add_argument("--speedups", type=lambda text: [float(each) for each in text.split(",")],
                        default=[1, 1.5, 1.75, 2])
    parser.add_argument("--policies", type=lambda text: text.split(","), default=POLICIES)
    arguments = parser.parse_args()
    for name in arguments.table or TABLES:
        TABLES[name](Replays(arguments))


if __name__ == "__main__":
    main()
