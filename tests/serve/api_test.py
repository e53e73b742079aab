"""What the API promises, over plain sockets. The official client's view is tests/openai's."""
from harness import Server, main, test

SERVER = Server("--served-model-name", "yolk-test")
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
QUESTION = [{"role": "user", "content": "The red fox holds 4821. What does the red fox hold?"}]
OPEN = [{"role": "user", "content": "Tell me a story."}]
START = "It was a dark evening, and the"
GREEDY = {"temperature": 0, "ignore_eos": True}


def texts(events, choice=0):
    parts = []
    for event in events:
        for one in event["choices"]:
            if one["index"] == choice:
                parts.append(one["text"] if "text" in one else one["delta"].get("content") or "")
    return parts


def finishes(events):
    return [one["finish_reason"] for event in events for one in event["choices"] if one["finish_reason"]]


@test
def chat_stream_order():
    """a chat stream is a role, then text, then one finish reason, then usage, then [DONE]"""
    events = SERVER.stream(CHAT, messages=QUESTION, max_tokens=12, stream_options={"include_usage": True}, **GREEDY)
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert len({(event["id"], event["created"], event["model"]) for event in events}) == 1
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}, events[0]
    assert all("role" not in event["choices"][0]["delta"] for event in events[1:-1])
    assert all(part for part in texts(events)[1:-1]), "an empty delta in mid-stream"
    assert events[-2]["choices"][0]["delta"] == {} and events[-2]["choices"][0]["finish_reason"] == "length"
    assert finishes(events) == ["length"]
    assert events[-1]["choices"] == [] and all(event["usage"] is None for event in events[:-1])
    usage = events[-1]["usage"]
    assert usage["completion_tokens"] == 12, usage
    assert usage["total_tokens"] == usage["prompt_tokens"] + 12, usage
    whole = SERVER.good(CHAT, messages=QUESTION, max_tokens=12, **GREEDY)
    assert whole["choices"][0]["message"]["content"] == "".join(texts(events))
    assert whole["usage"]["prompt_tokens"] == usage["prompt_tokens"]


@test
def no_usage_unasked():
    """a stream without include_usage has no usage chunk"""
    events = SERVER.stream(CHAT, messages=QUESTION, max_tokens=4, **GREEDY)
    assert all(event["choices"] and not event.get("usage") for event in events), events


@test
def stream_is_live():
    """the first token is sent while later ones are still to come"""
    with SERVER.connect() as connection:
        connection.send("POST", COMPLETIONS, {"prompt": START, "max_tokens": 2000, "stream": True, **GREEDY})
        events = connection.events()
        next(events)
        running = SERVER.metrics()["yolk_requests_running"]
        assert running == 1, running
    SERVER.until_idle()


@test
def stop_across_tokens():
    """a stop string that spans tokens ends the text before it, at every place it can be cut"""
    full = SERVER.complete(START, max_tokens=24, temperature=0.9, seed=5, ignore_eos=True)["choices"][0]["text"]
    assert len(full) > 12, full
    for begin in range(2, len(full) - 7, 3):
        stop = full[begin:begin + 7]
        want = full[:full.index(stop)]
        fields = {"prompt": START, "max_tokens": 24, "temperature": 0.9, "seed": 5, "ignore_eos": True, "stop": stop}
        choice = SERVER.good(COMPLETIONS, **fields)["choices"][0]
        assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == (want, "stop", stop), (stop, choice)
        events = SERVER.stream(COMPLETIONS, **fields)
        assert "".join(texts(events)) == want and finishes(events) == ["stop"], (stop, events)
        assert all(texts(events)[:-1]), "an empty chunk while text was held back"
    kept = SERVER.complete(START, max_tokens=24, temperature=0.9, seed=5, ignore_eos=True, stop=full[4:11],
                           include_stop_str_in_output=True)["choices"][0]["text"]
    assert kept == full[:full.index(full[4:11]) + 7], kept


@test
def choices():
    """n = 2: choice c is what seed + c gives alone, whole and streamed, and usage counts the prompt once"""
    # An open prompt: what the model is sure of comes out the same under any seed.
    fields = {"messages": OPEN, "max_tokens": 10, "temperature": 1, "ignore_eos": True}
    alone = [SERVER.good(CHAT, seed=seed, **fields) for seed in (7, 8)]
    both = SERVER.good(CHAT, seed=7, n=2, **fields)
    assert [one["index"] for one in both["choices"]] == [0, 1]
    want = [one["choices"][0]["message"]["content"] for one in alone]
    assert [one["message"]["content"] for one in both["choices"]] == want and want[0] != want[1]
    assert both["usage"]["prompt_tokens"] == alone[0]["usage"]["prompt_tokens"]
    assert both["usage"]["completion_tokens"] == 20
    events = SERVER.stream(CHAT, seed=7, n=2, **fields)
    assert ["".join(texts(events, choice)) for choice in (0, 1)] == want
    assert sorted(finishes(events)) == ["length", "length"]


@test
def logprobs():
    """log probabilities: each chosen token is the greedy one, they are finite, ordered and spell the text"""
    answer = SERVER.good(CHAT, messages=QUESTION, max_tokens=8, logprobs=True, top_logprobs=3, **GREEDY)
    items = answer["choices"][0]["logprobs"]["content"]
    assert len(items) == 8
    for item in items:
        tops = [one["logprob"] for one in item["top_logprobs"]]
        assert len(tops) == 3 and tops == sorted(tops, reverse=True) and -9999 <= tops[2] <= tops[0] <= 0, item
        assert item["top_logprobs"][0]["token"] == item["token"] and item["logprob"] == tops[0], item
    spelled = b"".join(bytes(item["bytes"]) for item in items).decode(errors="replace")
    assert spelled == answer["choices"][0]["message"]["content"]
    events = SERVER.stream(CHAT, messages=QUESTION, max_tokens=8, logprobs=True, top_logprobs=3, **GREEDY)
    streamed = [item for event in events for item in ((event["choices"][0].get("logprobs") or {}).get("content") or [])]
    assert streamed == items, "streamed log probabilities differ"


@test
def banned_tokens():
    """tokens that can never come have a finite log probability, and do not come"""
    first = SERVER.good(COMPLETIONS, prompt=START, max_tokens=1, logprobs=1, **GREEDY)
    token = SERVER.good("/tokenize", prompt=first["choices"][0]["text"], add_special_tokens=False)["tokens"][0]
    answer = SERVER.good(COMPLETIONS, prompt=START, max_tokens=4, logprobs=20, logit_bias={str(token): -100}, **GREEDY)
    assert first["choices"][0]["text"] != answer["choices"][0]["logprobs"]["tokens"][0]
    values = [value for top in answer["choices"][0]["logprobs"]["top_logprobs"] for value in top.values()]
    assert all(-9999 <= value <= 0 for value in values), values


@test
def seeds():
    """a seed repeats its answer; without one, answers differ"""
    fields = {"prompt": START, "max_tokens": 16, "temperature": 1.5, "ignore_eos": True}
    same = {SERVER.good(COMPLETIONS, seed=11, **fields)["choices"][0]["text"] for _ in range(3)}
    assert len(same) == 1, same
    unseeded = {SERVER.good(COMPLETIONS, **fields)["choices"][0]["text"] for _ in range(4)}
    assert len(unseeded) > 1, unseeded
    for seed in (-1, 2**63 - 1, -(2**63)):
        SERVER.good(COMPLETIONS, seed=seed, **fields)


@test
def cached_tokens():
    """the second request with a prefix says how many of its tokens came from the cache, once"""
    prompt = "There was once a king who had three sons and a garden full of golden apples. " * 6
    first = SERVER.complete(prompt, max_tokens=2, **GREEDY)["usage"]
    second = SERVER.complete(prompt, max_tokens=2, **GREEDY)["usage"]
    assert first["prompt_tokens_details"]["cached_tokens"] == 0, first
    cached = second["prompt_tokens_details"]["cached_tokens"]
    assert first["prompt_tokens"] - 16 <= cached + 1 and cached < first["prompt_tokens"] and cached % 16 == 0, second
    other = SERVER.complete(prompt, max_tokens=2, cache_salt="mine", **GREEDY)["usage"]
    assert other["prompt_tokens_details"]["cached_tokens"] == 0, "salt shares KV with no salt"
    again = SERVER.complete(prompt, max_tokens=2, cache_salt="mine", **GREEDY)["usage"]
    assert again["prompt_tokens_details"]["cached_tokens"] == cached, again


@test
def cached_turn():
    """the next turn finds the KV of the answer itself in the cache"""
    prompt = SERVER.good("/tokenize", prompt="Every bird in the wood sang when the sun came up.")["tokens"]
    token = SERVER.good("/tokenize", prompt=" bird", add_special_tokens=False)["tokens"][0]
    # A bias that outweighs all else makes the answer's tokens known.
    SERVER.complete(prompt, max_tokens=50, logit_bias={str(token): 100}, **GREEDY)
    SERVER.until_idle("the answer's blocks are in the shard")
    known = prompt + [token] * 49
    usage = SERVER.complete(known + [token, 5], max_tokens=1, **GREEDY)["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == len(known) // 16 * 16, (usage, len(known))


@test
def batch():
    """a batch of prompts answers each as if it were alone, under its own index"""
    prompts = ["One day", "The sea was", "A little girl went"]
    both = SERVER.complete(prompts, max_tokens=6, **GREEDY)
    assert [one["index"] for one in both["choices"]] == [0, 1, 2]
    for prompt, choice in zip(prompts, both["choices"]):
        assert SERVER.complete(prompt, max_tokens=6, **GREEDY)["choices"][0]["text"] == choice["text"]
    events = SERVER.stream(COMPLETIONS, prompt=prompts, max_tokens=6, **GREEDY)
    for index, choice in enumerate(both["choices"]):
        assert "".join(texts(events, index)) == choice["text"]


@test
def whole_context():
    """a prompt may fill the context up to one token; the answer stops at its end"""
    length = SERVER.ask("GET", "/v1/models").json()["data"][0]["max_model_len"]
    tokens = [5 + index % 900 for index in range(length - 1)]
    answer = SERVER.complete(tokens, max_tokens=1, **GREEDY)
    assert answer["usage"]["prompt_tokens"] == length - 1 and answer["choices"][0]["finish_reason"] == "length"
    answer = SERVER.complete(tokens[:length - 40], **GREEDY, max_tokens=40)
    assert answer["usage"]["completion_tokens"] == 40
    chat = SERVER.good(CHAT, messages=[{"role": "user", "content": "word " * 1500}], **GREEDY)  # no max_tokens
    assert chat["usage"]["total_tokens"] == length and chat["choices"][0]["finish_reason"] == "length", chat["usage"]


@test
def long_context_restarts_nothing():
    """hundreds of blocks go to the cache and come back from it, and no actor ends of it"""
    with Server("--block-tokens", "8", "--prefill-kv", "4MiB") as server:
        length = server.ask("GET", "/v1/models").json()["data"][0]["max_model_len"]
        prompts = [[first] + [5 + index % 900 for index in range(length - 10)] for first in (1000, 1001)]
        answers = []
        for prompt in (*prompts, prompts[0]):  # the second takes the worker's whole pool, so the third is pulled
            answers.append(server.complete(prompt, max_tokens=4, **GREEDY))
            server.until_idle("the blocks are in the shard")
        assert answers[2]["choices"] == answers[0]["choices"]
        cached = answers[2]["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert cached > length - 20, answers[2]["usage"]
        restarts = [name for name in server.metrics() if name.startswith("yolk_actor_restarts_total")]
        assert not restarts, (restarts, server.output())


@test
def broken_characters():
    """text is whole characters, whatever tokens are forced to come"""
    # Token ids of single bytes of a multi-byte character, forced one after another by a large bias.
    for text in ("é", "€", "😀"):
        for token in SERVER.good("/tokenize", prompt=text, add_special_tokens=False)["tokens"]:
            fields = {"prompt": START, "max_tokens": 3, "logit_bias": {str(token): 100}, "temperature": 0,
                      "ignore_eos": True, "logprobs": 1}
            whole = SERVER.good(COMPLETIONS, **fields)["choices"][0]["text"]
            events = SERVER.stream(COMPLETIONS, **fields)
            assert "".join(texts(events)) == whole, (whole, events)


@test
def tokenize():
    """tokenize and detokenize are inverse, for any text"""
    for text in ("Hello", "", " two  spaces\n\n", "naïve 😀 \u0000 漢字", "<|im_start|>", "a" * 5000):
        tokens = SERVER.good("/tokenize", prompt=text, add_special_tokens=False)["tokens"]
        assert SERVER.good("/detokenize", tokens=tokens)["prompt"] == text, text
    counted = SERVER.good("/tokenize", messages=QUESTION)
    used = SERVER.good(CHAT, messages=QUESTION, max_tokens=1)["usage"]["prompt_tokens"]
    assert counted["count"] == len(counted["tokens"]) == used, (counted, used)


@test
def models():
    """the served name is the model's name, in lists, answers and errors"""
    data = SERVER.ask("GET", "/v1/models").json()["data"]
    assert [one["id"] for one in data] == ["yolk-test"], data
    assert SERVER.ask("GET", "/v1/models/yolk-test").json() == data[0]
    assert SERVER.ask("GET", "/v1/models/other").status == 404
    assert SERVER.good(CHAT, model="yolk-test", messages=QUESTION, max_tokens=1)["model"] == "yolk-test"
    missing = SERVER.ask("POST", CHAT, {"model": "other", "messages": QUESTION})
    assert missing.status == 404 and missing.error()["code"] == "model_not_found", missing
    assert "other" in missing.error()["message"] and "yolk-test" in missing.error()["message"]


@test
def keep_alive():
    """one connection serves one request after another, streams among them"""
    with SERVER.connect() as connection:
        for _ in range(5):
            connection.send("POST", COMPLETIONS, {"prompt": START, "max_tokens": 3, **GREEDY})
            first = connection.answer()
            connection.send("POST", COMPLETIONS, {"prompt": START, "max_tokens": 3, "stream": True, **GREEDY})
            events = connection.whole_stream()
            assert first.json()["choices"][0]["text"] == "".join(texts(events))
            assert connection.rest == b"", connection.rest


@test
def health():
    """/health and /version answer, and HEAD has no body"""
    assert SERVER.ask("GET", "/health").status == 200
    assert SERVER.ask("GET", "/version").json()["version"]
    page = SERVER.ask("GET", "/")
    assert page.status == 200 and page.headers["content-type"].startswith("text/html"), page
    with SERVER.connect() as connection:
        connection.send("HEAD", "/health")
        head = connection.head()
        connection.send("GET", "/version")
        assert head.status in (200, 405) and connection.answer().status in (200, 405), head


if __name__ == "__main__":
    with SERVER:
        main()
