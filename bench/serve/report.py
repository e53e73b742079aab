"""From all rounds' figures to one table: Yolk, the peer, their ratio, the target, and Yolk's share of the machine."""

import statistics


class line:
    """One figure. `better` says whether the ratio to the peer is to be at least or at most the target."""

    def __init__(self, text, key, unit, target=None, better="more", share=None):
        self.text, self.key, self.unit, self.target, self.better, self.share = text, key, unit, target, better, share


def lines(options, machine):
    shape = machine.shape

    def prefill_share(tokens, context=0):
        """Of the multiply-adds that the cores could have done meanwhile."""
        return lambda seconds: machine.flop_share(shape.prefill_flop(tokens, context), seconds)

    def of_rate(tokens):
        return lambda rate: prefill_share(tokens)(tokens / rate)

    def decode_share(streams):
        # Half of what is generated lies before the average token.
        context = 32 + options.tokens / 2
        return lambda rate: machine.step_share(streams, context, streams / rate)

    yield line(f"prefill, {options.short} tokens", "prefill_short", "tokens/s", 2.5, share=of_rate(options.short))
    yield line(f"prefill, {options.long} tokens", "prefill_long", "tokens/s", 2.5, share=of_rate(options.long))
    yield line(f"TTFT, {options.long} tokens, cold", "ttft_cold", "s", 0.4, "less", prefill_share(options.long))
    yield line(f"TTFT, {options.long} tokens cached + {options.tail} new", "ttft_cached", "s", 0.5, "less",
               prefill_share(options.tail, options.long))  # fmt: skip
    for count in options.streams:
        target = {1: 1.15, 8: 2.0}.get(count)
        name = "1 stream" if count == 1 else f"{count} streams"
        yield line(f"decode, {name}", f"decode_{count}_rate", "tokens/s", target, share=decode_share(count))
        yield line(f"  gap P50", f"decode_{count}_gap_p50", "ms", better="less")
        yield line(f"  gap P99", f"decode_{count}_gap_p99", "ms", better="less")
    yield line(f"longest gap while {options.long} tokens arrive", "gap_longest", "ms", better="less")
    yield line("  in median gaps before them", "gap_longest_in_medians", "x", better="less")
    yield line("  TTFT of those tokens", "ttft_beside_decode", "s", better="less")
    yield line("decode, 1 stream, a busy process beside", "busy_rate", "tokens/s", share=decode_share(1))
    yield line("  share of the rate without it", "busy_share", "x")


def number(value, unit):
    value = 1e3 * value if unit == "ms" else value
    digits = 0 if value >= 1000 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{digits}f}"


def median_of(rounds, name, key):
    values = [figures[name][key] for figures in rounds if figures.get(name, {}).get(key) is not None]
    return statistics.median(values) if values else None


def ratio_of(rounds, key):
    pairs = [(f["yolk"].get(key), f.get("peer", {}).get(key)) for f in rounds]
    values = [mine / theirs for mine, theirs in pairs if mine is not None and theirs]
    return (statistics.median(values), min(values), max(values)) if values else None


# Targets that are not ratios to the peer: (key, at least or at most, value).
OWN_TARGETS = {"gap_longest_in_medians": ("at most", 4.0), "busy_share": ("at least", 0.4)}


def row(one, rounds):
    mine = median_of(rounds, "yolk", one.key)
    if mine is None:
        known = any(one.key in figures["yolk"] for figures in rounds)
        return [one.text, "too short to measure", "", "", "", ""] if known else None
    theirs = median_of(rounds, "peer", one.key)
    ratio = ratio_of(rounds, one.key)
    cells = [one.text, f"{number(mine, one.unit)} {one.unit}", f"{number(theirs, one.unit)} {one.unit}" if theirs else ""]
    cells.append(f"{ratio[0]:.3g} ({ratio[1]:.3g} to {ratio[2]:.3g})" if ratio else "")
    if one.key in OWN_TARGETS:
        word, wanted = OWN_TARGETS[one.key]
        met = mine <= wanted if word == "at most" else mine >= wanted
        cells.append(f"{word} {wanted:g} (itself): {'met' if met else 'missed'}")
    elif one.target and ratio:
        met = ratio[0] >= one.target if one.better == "more" else ratio[0] <= one.target
        cells.append(f"{'at least' if one.better == 'more' else 'at most'} {one.target:g}: {'met' if met else 'missed'}")
    else:
        cells.append("")
    share = one.share(mine) if one.share else None
    cells.append(f"{100 * share:.0f} %" if share else "")
    return cells


def memory_row(options, memory, shape):
    allowed = 1.1 * shape.weight_bytes + options.kv_tokens * shape.kv_bytes + 200e6
    mine, theirs = memory["yolk"], memory.get("peer")
    return [
        "peak memory", f"{mine / 1e6:.0f} MB", f"{theirs / 1e6:.0f} MB" if theirs else "", f"{mine / theirs:.3g}" if theirs else "",
        f"at most {allowed / 1e6:.0f} MB (1.1 x {shape.weight_bytes / 1e6:.0f} weights + {options.kv_tokens * shape.kv_bytes / 1e6:.0f} KV"
        f" + 200): {'met' if mine <= allowed else 'missed'}", "",
    ]  # fmt: skip


def table(options, rounds, memory, machine):
    rows = [cells for cells in (row(one, rounds) for one in lines(options, machine)) if cells]
    rows.append(memory_row(options, memory, machine.shape))
    head = ["figure", "Yolk", "peer", "ratio (of all rounds)", "target", "of the machine"]
    if options.quick:  # of a model as small as that they would say nothing
        head, rows = head[:3], [cells[:3] for cells in rows]
    text = [" | ".join(cells) for cells in [head, ["---"] * len(head), *rows]]
    out = "\n".join(f"| {cells} |" for cells in text)
    about = "a tiny model: shows that all parts work, not how fast they are" if options.quick else machine.describe()
    return f"{about}\n\n{out}"
