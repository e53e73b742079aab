"""/metrics: every series of docs/metrics.md is there, and counts each thing once."""
import os
import re

from harness import Server, main, test, until

SERVER = Server()
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "metrics.md")
COMPLETIONS = "/v1/completions"
PROMPT = [5 + index for index in range(100)]
FIELDS = {"temperature": 0, "ignore_eos": True}


def rows():
    """(name, type, {label: values}) of the table in docs/metrics.md."""
    with open(DOCS, encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) == 4 and cells[1] in ("counter", "gauge", "histogram"):
                labels = dict(re.findall(r"`(\w+)`: ([\w, ]+)", cells[2]))
                for name in re.findall(r"`(\w+)`", cells[0]):
                    yield name, cells[1], {label: values.split(", ") for label, values in labels.items()}


@test
def all_there():
    """every series of the documentation is there after a little traffic, with its type and its labels"""
    SERVER.complete(PROMPT, max_tokens=20, **FIELDS)
    documented = list(rows())
    assert len(documented) >= 15, documented
    text = SERVER.ask("GET", "/metrics").text()
    for name, kind, labels in documented:
        if name == "yolk_actor_restarts_total":
            continue  # appears with the first restart
        assert f"# TYPE {name} {kind}\n" in text, name
        assert f"# HELP {name} " in text, name
        sample = name + "_count" if kind == "histogram" else name
        found = re.findall(rf"^{sample}{{(.*)}} ", text, re.M)
        assert found and all('model_name="builtin"' in one for one in found), (name, found)
        for label, values in labels.items():
            for value in values if name != "yolk_kv_usage_ratio" else ["decode" if label == "owner" else "device"]:
                assert any(f'{label}="{value}"' in one for one in found), (name, label, value)
    documented_names = {name for name, _, _ in documented}
    for name in re.findall(r"^# TYPE (\S+)", text, re.M):
        assert name in documented_names, f"{name} is not documented"


@test
def counted_once():
    """tokens, hits, requests and latencies are counted once each"""
    def difference(before):
        return lambda name: SERVER.metrics()[name] - before.get(name, 0)

    prompt = [700] + PROMPT
    more = difference(SERVER.metrics())
    SERVER.complete(prompt, max_tokens=20, **FIELDS)
    assert (more("yolk_prompt_tokens_total"), more("yolk_prompt_tokens_cached_total")) == (101, 0)
    assert more("yolk_generation_tokens_total") == 20
    assert more('yolk_requests_total{outcome="length"}') == 1
    assert more("yolk_time_to_first_token_seconds_count") == 1
    assert more("yolk_inter_token_latency_seconds_count") == 19
    assert more("yolk_request_latency_seconds_count") == 1
    assert more("yolk_request_queue_time_seconds_count") == 1
    assert more('yolk_step_tokens_sum{kind="prefill"}') == 101
    assert more('yolk_step_tokens_sum{kind="decode"}') == 19
    # What moved to the decode worker: 7 blocks.
    assert more('yolk_transfer_bytes_total{path="prefill_to_decode"}') == 7 * 16 * 2048
    more = difference(SERVER.metrics())
    SERVER.stream(COMPLETIONS, prompt=prompt, max_tokens=20, n=3, **FIELDS)
    assert (more("yolk_prompt_tokens_total"), more("yolk_prompt_tokens_cached_total")) == (101, 96)
    assert more("yolk_generation_tokens_total") == 60
    assert more('yolk_requests_total{outcome="length"}') == 1
    assert more("yolk_time_to_first_token_seconds_count") == 1
    assert more('yolk_step_tokens_sum{kind="prefill"}') == 5


@test
def stop_and_length():
    """outcomes tell a stop from a length"""
    before = SERVER.metrics()
    text = SERVER.complete(PROMPT, max_tokens=20, **FIELDS)["choices"][0]["text"]
    SERVER.complete(PROMPT, max_tokens=20, stop=text[3:8], **FIELDS)
    after = SERVER.metrics()
    for outcome in ("stop", "length"):
        name = f'yolk_requests_total{{outcome="{outcome}"}}'
        assert after[name] == before[name] + 1, (name, before[name], after[name])


@test
def histograms():
    """a histogram's buckets rise to its count"""
    values = {}
    for line in SERVER.ask("GET", "/metrics").text().splitlines():
        found = re.match(r"(\w+)_bucket{(.*?),?le=\"(.*)\"} (\S+)", line)
        if found:
            values.setdefault((found[1], found[2]), []).append((float(found[3].replace("+Inf", "inf")), float(found[4])))
    assert len(values) >= 7, list(values)
    for series, buckets in values.items():
        assert buckets == sorted(buckets) and [count for _, count in buckets] == sorted(count for _, count in buckets), series
        assert buckets[-1][0] == float("inf"), series


@test
def gauges_return():
    """gauges follow the load up and down, and usage is a ratio"""
    with SERVER.connect() as connection:
        connection.send("POST", COMPLETIONS, {"prompt": PROMPT, "max_tokens": 1900, "stream": True, **FIELDS})
        events = connection.events()
        next(events)
        assert SERVER.metrics()["yolk_requests_running"] == 1
        until(lambda: SERVER.metrics()["yolk_kv_cache_usage_ratio"] > 0, "blocks are in use")
    SERVER.until_idle()
    metrics = SERVER.metrics()
    assert metrics["yolk_requests_running"] == 0 and metrics["yolk_requests_waiting"] == 0
    assert metrics["yolk_kv_cache_usage_ratio"] == 0, metrics["yolk_kv_cache_usage_ratio"]
    assert all(0 <= value <= 1 for name, value in metrics.items() if "_ratio" in name)


@test
def clients_make_no_series():
    """nothing that clients choose becomes a label"""
    names = set(SERVER.metrics())
    for index in range(20):
        SERVER.ask("POST", COMPLETIONS, {"prompt": "x", "model": f"m{index}", "user": f"u{index}"})
        SERVER.ask("GET", f"/path{index}")
        SERVER.ask("POST", COMPLETIONS, {"prompt": "x", "max_tokens": 1, "user": f"u{index}", "cache_salt": f"s{index}"})
    assert set(SERVER.metrics()) - names == set()


@test
def cluster_agrees():
    """/cluster shows sums of the same counters"""
    cluster, metrics = SERVER.until_idle(), SERVER.metrics()
    counters = cluster["counters"]
    assert counters["prompt_tokens"] == metrics["yolk_prompt_tokens_total"], counters
    assert counters["cached_tokens"] == metrics["yolk_prompt_tokens_cached_total"], counters
    assert counters["generated_tokens"] == metrics["yolk_generation_tokens_total"], counters
    assert counters["requests_finished"] == sum(metrics[f'yolk_requests_total{{outcome="{name}"}}'] for name in ("stop", "length"))
    assert {actor["kind"] for actor in cluster["actors"]} >= {"http_gateway", "admission_controller", "conductor",
                                                             "prefill_worker", "decode_worker", "cache_shard"}


if __name__ == "__main__":
    with SERVER:
        main()
