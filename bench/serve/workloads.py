"""What is measured of a server. Each function takes a server and returns numbers by name; prompts are token ids, so
their lengths are exact, and no two share a prefix unless that is what is measured."""

import statistics

from servers import busy_process
from streams import run, stream


# Tokens of tiny models arrive together, in one read: over a time as short as that there is no rate (None).
shortest_seconds = 0.01


def over(value, seconds):
    return value / seconds if value is not None and seconds is not None and seconds > 0 else None


class prompts:
    """Random token ids. Both servers get the same ones."""

    def __init__(self, random, vocabulary):
        self.random = random
        self.vocabulary = vocabulary

    def fresh(self, length):
        # The first 300 are bytes, the last are special tokens.
        low, high = min(300, self.vocabulary // 2), self.vocabulary - 8
        return [self.random.randrange(low, high) for _ in range(length)]


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def first_token(server, prompt):
    """Seconds from the request to its first token."""
    one = stream(server.port, prompt, 1)
    run([one])
    if one.usage["prompt_tokens"] != len(prompt):
        raise RuntimeError(f"{server.name}: a prompt of {len(prompt)} tokens was counted as {one.usage['prompt_tokens']}")
    return one.first_token_seconds()


def prefill(server, shorts, long, tails):
    """Rates of two lengths of prompts, and the longer one's TTFT again when it is cached and new tokens follow it."""
    short_seconds = statistics.median(first_token(server, short) for short in shorts)
    cold = first_token(server, long)
    cached = statistics.median(first_token(server, long + tail) for tail in tails)
    return {
        "prefill_short": len(shorts[0]) / short_seconds,
        "prefill_long": len(long) / cold,
        "ttft_cold": cold,
        "ttft_cached": cached,
    }


def decode(server, streams_prompts, tokens):
    """Tokens a second of all streams together while all of them decode, and the gaps within each."""
    streams = [stream(server.port, prompt, tokens) for prompt in streams_prompts]
    run(streams)
    begin = max(one.times[0] for one in streams)
    end = min(one.times[-1] for one in streams)
    if begin >= end:  # a model so small that one stream is over before the next begins
        begin, end = min(one.times[0] for one in streams), max(one.times[-1] for one in streams)
    gaps = [gap for one in streams for gap in one.gaps(begin, end)] or [0.0]
    rate = over(len(gaps), end - begin) if end - begin >= shortest_seconds else None
    return {"rate": rate, "gap_p50": quantile(gaps, 0.5), "gap_p99": quantile(gaps, 0.99)}


def gap_under_prompt(server, short, long, quiet_tokens):
    """One stream decodes; when it has quiet_tokens, a long prompt arrives. Its gaps before, and the longest from then
    until a few tokens after that prompt's first token."""
    decoding = stream(server.port, short, 4000)
    streams = [decoding]

    def watch():
        if len(streams) == 1 and len(decoding.times) >= quiet_tokens:
            streams.append(stream(server.port, long, 1))
        if len(streams) == 2 and streams[1].ended and decoding.times[-1] > streams[1].times[0]:
            decoding.close()

    run(streams, watch)
    arrival = streams[1].began
    before = decoding.gaps(0.0, arrival)[1:]
    under = [b - a for a, b in zip(decoding.times, decoding.times[1:]) if b > arrival] or [0.0]
    median = statistics.median(before)
    return {
        "gap_quiet": median,
        "gap_longest": max(under),
        "gap_longest_in_medians": over(max(under), median if sum(before) >= shortest_seconds else None),
        "gap_under_p50": statistics.median(under),
        "ttft_beside_decode": streams[1].first_token_seconds(),
    }


def decode_beside_busy_process(server, prompt, quiet_prompt, tokens):
    """The rate of one stream with a foreign busy process, and its share of the rate just before."""
    quiet = decode(server, [quiet_prompt], tokens)["rate"]
    with busy_process():
        busy = decode(server, [prompt], tokens)
    return {"busy_rate": busy["rate"], "busy_gap_p99": busy["gap_p99"], "busy_share": over(busy["rate"], quiet)}
