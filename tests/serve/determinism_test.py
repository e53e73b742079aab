"""The same request gives the same tokens and log probabilities, whatever runs beside it, wherever it lands, however
its prompt was cut, cached, preempted or resumed."""
import json

from harness import Server, main, test, together
from same_answers import COMPLETIONS, ask_all, compare, requests, streamed, told

SHAPES = {
    "one worker each": (),
    "2 prefill, 3 decode workers, chunks of 16": ("--prefill-workers", "2", "--decode-workers", "3", "--chunk-tokens",
                                                  "16"),
    "blocks of 32, chunks of 2048, batches of 3": ("--block-tokens", "32", "--chunk-tokens", "2048", "--max-batch", "3"),
    "1 thread, no cache to speak of": ("--threads", "1", "--cache-dram", "64KiB"),
}


WANT = []


@test
def everywhere():
    """alone and among 16, cold and cached, whole and streamed, in clusters of other shapes: equal to the last digit"""
    made = requests()
    for name, options in SHAPES.items():
        with Server(*options) as server:
            if not WANT:
                WANT.extend(told(server.good(COMPLETIONS, **one)) for one in made)
            else:
                compare(WANT, ask_all(server, made), f"cold, among 16, with {name}")
            compare(WANT, ask_all(server, made), f"cached, among 16, with {name}")
            compare(WANT, [told(server.good(COMPLETIONS, **one)) for one in reversed(made)][::-1],
                    f"cached, alone, with {name}")
            one = made[8]
            texts = streamed(server.stream(COMPLETIONS, **one))
            assert texts == [choice["text"] for choice in json.loads(WANT[8])], f"a stream differs with {name}"


@test
def preempted():
    """in pools so small that sequences give up their blocks and are resumed"""
    # Each needs up to 5 + 100 tokens, so 7 blocks of 32 KiB; 16 of them do not fit into 24 blocks.
    made = [{"prompt": [5 + index, 6, 7, 8, 9], "max_tokens": 100, "logprobs": 2, "ignore_eos": True, "temperature": 1,
             "seed": index} for index in range(16)]
    with Server() as server:
        want = [told(server.good(COMPLETIONS, **one)) for one in made]
    with Server("--decode-kv", "768KiB", "--prefill-kv", "768KiB") as server:
        compare(want, ask_all(server, made), "in a small pool")
        metrics = server.metrics()
        preemptions = metrics["yolk_preemptions_total"]
        assert preemptions > 0, "nothing was preempted: this test shows nothing"
        resumed = metrics['yolk_legs_resumed_total{reason="preempted"}']
        print(f"        {preemptions:.0f} preemptions, {resumed:.0f} legs resumed")
        assert metrics["yolk_generation_tokens_total"] == 1600, metrics["yolk_generation_tokens_total"]
        server.until_idle()
        compare(want, ask_all(server, made), "in a small pool, again")
        # One request's choices alone can outgrow the pool, too.
        both = {**made[0], "n": 8, "max_tokens": 100}
        small = told(server.good(COMPLETIONS, **both))
        server.until_idle()
    with Server() as server:
        compare([told(server.good(COMPLETIONS, **both))], [small], "with n = 8 in a small pool")


if __name__ == "__main__":
    main()
