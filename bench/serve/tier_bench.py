#!/usr/bin/env python3
"""Measures the time to first token of one prompt length by where the prompt's KV lies: nowhere (it is computed), in the
cache shard's DRAM, or on its SSD, after a restart. All in one run of `yolk serve` and its restart, over several prompts;
a ratio is the median of the prompts' ratios. The workers' own pools have room for one prompt, so that the shard is asked."""

import argparse
import contextlib
import os
import random
import statistics
import sys
import tempfile

import limits
import workloads
from servers import server


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--yolk", required=True, help="the program")
    parser.add_argument("--model", required=True, help="a Hugging Face folder")
    parser.add_argument("--folder", help="where the SSD tier lies (default: a temporary folder)")
    parser.add_argument("--tokens", type=int, default=1500, help="of a prompt")
    parser.add_argument("--prompts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def forget_pages(folder):
    """The next reads of these files come from the device."""
    for name in os.listdir(folder):
        descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
        with contextlib.suppress(OSError):
            os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


@contextlib.contextmanager
def running(options, shape, folder, logs, number):
    room = (options.tokens + 64) * shape.kv_bytes
    everything = (options.prompts + 2) * room
    one = server(f"yolk {number}", [
        options.yolk, "serve", "--model", options.model, "--port", "{port}", "--prefill-kv", str(room), "--decode-kv",
        str(room), "--cache-dram", str(everything), "--cache-ssd", folder, "--cache-ssd-bytes", str(4 * everything + (64 << 20)),
    ], os.path.join(logs, str(number)))  # fmt: skip
    try:
        one.wait_until_healthy()
        yield one
    finally:
        one.stop()


def measure(options, folder, logs):
    """{where: [seconds of each prompt]}"""
    shape = limits.model_shape(options.model)
    make = workloads.prompts(random.Random(options.seed), shape.vocabulary)
    prompts = [make.fresh(options.tokens) for _ in range(options.prompts)]
    seconds = {}
    with running(options, shape, folder, logs, 1) as first:
        workloads.first_token(first, make.fresh(options.tokens))  # the first request finds cold pages everywhere
        seconds["computed"] = [workloads.first_token(first, prompt) for prompt in prompts]
        seconds["DRAM"] = [workloads.first_token(first, prompt) for prompt in prompts]
    forget_pages(folder)
    with running(options, shape, folder, logs, 2) as second:
        workloads.first_token(second, make.fresh(options.tokens))
        seconds["SSD"] = [workloads.first_token(second, prompt) for prompt in prompts]
        seconds["DRAM, from SSD before"] = [workloads.first_token(second, prompt) for prompt in prompts]
    with running(options, shape, folder, logs, 3) as third:
        workloads.first_token(third, make.fresh(options.tokens))
        seconds["SSD, in the page cache"] = [workloads.first_token(third, prompt) for prompt in prompts]
    return seconds


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or os.path.join(scratch, "ssd")
        os.makedirs(folder, exist_ok=True)
        seconds = measure(options, folder, scratch)
    print(f"time to first token of {options.tokens} tokens, {options.prompts} prompts")
    for where, values in seconds.items():
        ratio = statistics.median(value / base for value, base in zip(values, seconds["computed"]))
        print(f"  {where:24} {1e3 * statistics.median(values):9.1f} ms   {ratio:6.3f} of computed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
