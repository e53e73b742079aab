"""What the machine can do, measured in the same run, and what a model asks of it."""

import json
import os
import subprocess


class model_shape:
    """The arithmetic and the bytes of a model's tokens, from its config.json."""

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as text:
            config = json.load(text)
        self.layers = config["num_hidden_layers"]
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.vocabulary = config["vocab_size"]
        self.q_width = config["num_attention_heads"] * config["head_dim"]
        kv_width = config["num_key_value_heads"] * config["head_dim"]
        layer = hidden * (self.q_width + 2 * kv_width) + self.q_width * hidden + 3 * hidden * inner
        self.layer_products = self.layers * layer  # of one token
        self.head_products = hidden * self.vocabulary
        self.weight_bytes = 2 * (self.layer_products + 2 * self.head_products)
        self.kv_bytes = 2 * 2 * kv_width * self.layers  # of one token, 16 bits a value

    def prefill_flop(self, tokens, context=0):
        """Matrices for every token, the head for the last, scores and sums over all earlier positions."""
        seen = sum(range(context + 1, context + tokens + 1))
        return 2 * (tokens * self.layer_products + self.head_products) + 4 * seen * self.q_width * self.layers

    def step_bytes(self, streams, context):
        return 2 * (self.layer_products + self.head_products) + streams * context * self.kv_bytes

    def step_flop(self, streams):
        return 2 * streams * (self.layer_products + self.head_products)


class machine_limits:
    """The best seen so far: a neighbour can only make the machine look slower."""

    def __init__(self, program, threads, shape):
        self.program = program
        self.threads = threads
        self.shape = shape
        self.read_bytes = 0.0  # a second, from memory
        self.flops = {}  # a second, from registers, by instruction

    def measure(self):
        if not self.program:
            return
        out = subprocess.run(
            [self.program, f"--benchmark_filter=^limit/.*threads:{self.threads}/", "--benchmark_format=json",
             "--benchmark_repetitions=5", "--benchmark_min_time=0.03"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for run in json.loads(out)["benchmarks"]:
            if run["run_type"] != "iteration":
                continue
            if "bytes" in run:
                self.read_bytes = max(self.read_bytes, run["bytes"])
            if "flop" in run:
                kind = run["run_name"].split("/")[1]
                self.flops[kind] = max(self.flops.get(kind, 0.0), run["flop"])

    def peak_flop(self):
        return max(self.flops.values(), default=0.0)

    def flop_share(self, flop, seconds):
        return flop / seconds / self.peak_flop() if self.flops else None

    def step_share(self, streams, context, seconds):
        """Of the shortest time in which the machine could read what a decode step reads, or multiply what it does."""
        if not self.flops or not self.read_bytes:
            return None
        reading = self.shape.step_bytes(streams, context) / self.read_bytes
        return max(reading, self.shape.step_flop(streams) / self.peak_flop()) / seconds

    def figures(self):
        return {"threads": self.threads, "read_bytes": self.read_bytes, **self.flops}

    def describe(self):
        if not self.flops:
            return f"{self.threads} cores; limits not measured"
        rates = ", ".join(f"{kind} {1e-9 * rate:.0f} GFLOP/s" for kind, rate in self.flops.items())
        return f"{self.threads} cores: reads {1e-9 * self.read_bytes:.1f} GB/s, {rates}"
