"""Requests that are wrong: each is refused by name, with a proper status, and disturbs nobody."""
from harness import Server, main, test

SERVER = Server()
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "Hello"}]


def refused(path, body, param, *words, status=400, code=None):
    answer = SERVER.ask("POST", path, body)
    assert answer.status == status, (body if len(str(body)) < 300 else "", answer)
    error = answer.error()
    assert error["type"] == "invalid_request_error", error
    if param is not None:
        assert (error["param"] or "").startswith(param), (param, error)
    if code is not None:
        assert error["code"] == code, error
    for word in words:
        assert str(word) in error["message"], (word, error)
    return error


def still_serves():
    assert SERVER.complete("Once", max_tokens=2, temperature=0)["usage"]["completion_tokens"] == 2


@test
def out_of_range():
    """a number out of its range is refused with the field, the value and the limit"""
    cases = [("temperature", -1, "-1", "2"), ("temperature", 2.5, "2.5", "2"), ("top_p", 0, "0", "1"),
             ("top_p", 1.5, "1.5", "1"), ("top_k", 0.5, "0.5"), ("top_k", -2, "-2"), ("min_p", -0.1, "-0.1", "1"),
             ("max_tokens", 0, "0", "1"), ("max_tokens", -5, "-5", "1"), ("max_tokens", 1.5, "1.5"),
             ("n", 0, "0", "16"), ("n", 17, "17", "16"), ("n", 10**30, "16"), ("repetition_penalty", 0, "0", "10"),
             ("presence_penalty", 3, "3", "2"), ("frequency_penalty", -2.5, "-2.5", "-2"),
             ("logit_bias", {"5": 101}, "101", "100"), ("stop", ["x"] * 17, "16"), ("stop", "", ""),
             ("stop", "s" * 1025, "1024"), ("stop_token_ids", [0] * 257, "256"), ("seed", 2**64, ""),
             ("seed", 0.5, "0.5"), ("min_tokens", -1, "-1")]
    for field, value, *words in cases:
        refused(COMPLETIONS, {"prompt": "Hi", field: value}, field, *words)
        refused(CHAT, {"messages": MESSAGES, field: value}, field, *words)
    refused(CHAT, {"messages": MESSAGES, "logprobs": True, "top_logprobs": 21}, "top_logprobs", 21, 20)
    refused(COMPLETIONS, {"prompt": "Hi", "logprobs": 21}, "logprobs", 21, 20)
    refused(COMPLETIONS, {"prompt": ["a"] * 257}, "prompt", 256)
    still_serves()


@test
def wrong_types():
    """a value of another type is refused by name"""
    wrong = {"temperature": "hot", "top_p": [], "top_k": "5", "max_tokens": "many", "n": True, "stop": 5,
             "stream": "yes", "logit_bias": [1], "seed": "x", "model": 7, "ignore_eos": 1, "cache_salt": 5,
             "stop_token_ids": "5", "user": {}}
    for field, value in wrong.items():
        refused(COMPLETIONS, {"prompt": "Hi", field: value}, field)
        refused(CHAT, {"messages": MESSAGES, field: value}, field)
    for messages in ("Hi", [], {}, ["Hi"], [{}], [{"role": "user"}], [{"role": "king", "content": "x"}],
                     [{"role": "user", "content": 5}], [{"role": "user", "content": [{"type": "image_url"}]}], None):
        refused(CHAT, {"messages": messages}, "messages")
    for prompt in ([], [[]], [-1], [2**40], [1.5], [True], [["a"]], {}, 5, None, [[1], []]):
        refused(COMPLETIONS, {"prompt": prompt}, "prompt")
    refused(CHAT, {}, "messages")
    refused(COMPLETIONS, {}, "prompt")
    still_serves()


@test
def no_json():
    """what is no JSON is refused: NaN and Infinity too, cut and nested beyond measure"""
    bodies = [b"", b"{", b"nonsense", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"prompt":"Hi"', b'{"prompt":"Hi"}x',
              b'{"prompt":"Hi","temperature":NaN}', b'{"prompt":"Hi","temperature":Infinity}',
              b'{"prompt":"Hi","temperature":-Infinity}', b'{"prompt":"Hi","temperature":1e400}',
              b'{"prompt":"\xff"}', b'{"prompt":"\\ud800"}', b'{"prompt":"a\nb"}', b"[" * 100000,
              b'{"a":' * 100000, b'{"prompt":"Hi","x":' + b"[" * 5000 + b"]" * 5000 + b"}"]
    for body in bodies:
        answer = SERVER.ask("POST", COMPLETIONS, body)
        assert answer.status == 400, (body[:60], answer)
        answer.error()
    still_serves()


@test
def too_long():
    """a prompt beyond the context is context_length_exceeded, with both numbers"""
    length = SERVER.ask("GET", "/v1/models").json()["data"][0]["max_model_len"]
    for tokens in (length, length + 1, 100_000):
        refused(COMPLETIONS, {"prompt": [5] * tokens, "max_tokens": 1}, "prompt", length, tokens,
                code="context_length_exceeded")
    refused(CHAT, {"messages": [{"role": "user", "content": "word " * 20_000}]}, "messages", length,
            code="context_length_exceeded")
    refused(COMPLETIONS, {"prompt": [5] * (length - 10), "max_tokens": 11}, "max_tokens", length, length + 1,
            code="context_length_exceeded")
    refused(COMPLETIONS, {"prompt": ["Hi", "x" * 200_000]}, "prompt", length, code="context_length_exceeded")
    still_serves()


@test
def unknown_tokens():
    """token ids outside the vocabulary are refused"""
    for field, value in (("prompt", [10**6]), ("prompt", [[5], [10**6]]), ("logit_bias", {"1000000": 1}),
                         ("stop_token_ids", [10**6])):
        refused(COMPLETIONS, {"prompt": "Hi", **{field: value}}, field)
    refused("/detokenize", {"tokens": [10**6]}, "tokens")
    refused(COMPLETIONS, {"prompt": "Hi", "logit_bias": {"x": 1}}, "logit_bias")
    still_serves()


@test
def unsupported():
    """what is not supported is said, not ignored"""
    for field, value in (("tools", [{"type": "function", "function": {"name": "f"}}]), ("best_of", 5),
                         ("response_format", {"type": "json_object"}), ("use_beam_search", True),
                         ("truncate_prompt_tokens", 5)):
        path, body = (COMPLETIONS, {"prompt": "Hi"}) if field == "best_of" else (CHAT, {"messages": MESSAGES})
        refused(path, {**body, field: value}, field)
    ok = SERVER.ask("POST", CHAT, {"messages": MESSAGES, "max_tokens": 1, "no_such_field": {"a": [1]}, "stop": None,
                                   "response_format": {"type": "text"}})
    assert ok.status == 200, ok


@test
def paths_and_methods():
    """unknown paths are 404, wrong methods 405 with Allow, both as OpenAI's errors"""
    for path in ("/v1/nothing", "/v2/chat/completions", "/v1/chat/completions/", "/../etc/passwd", "/%2e%2e/x"):
        answer = SERVER.ask("GET", path)
        assert answer.status == 404, (path, answer)
        answer.error()
    for path in ("/v1/embeddings", "/v1/responses"):
        refused(path, {"input": "Hi"}, None, f"no {path}", CHAT, status=404, code="not_found")
    for method, path in (("GET", CHAT), ("DELETE", CHAT), ("PUT", COMPLETIONS), ("POST", "/v1/models"),
                         ("POST", "/health"), ("POST", "/")):
        answer = SERVER.ask(method, path, {} if method != "GET" else None)
        assert answer.status == 405 and answer.headers.get("allow"), (method, path, answer)
    still_serves()


@test
def queries():
    """a query string does not change the path"""
    assert SERVER.ask("GET", "/health?verbose=1").status == 200
    assert SERVER.ask("POST", COMPLETIONS + "?api-version=1", {"prompt": "Hi", "max_tokens": 1}).status == 200


@test
def counted_as_invalid():
    """refusals are counted as invalid, and nothing of theirs reaches a worker"""
    before = SERVER.metrics()
    for _ in range(3):
        refused(COMPLETIONS, {"prompt": "Hi", "temperature": -1}, "temperature")
    after = SERVER.metrics()
    invalid = 'yolk_requests_total{outcome="invalid"}'
    assert after[invalid] == before[invalid] + 3, after[invalid]
    assert after["yolk_prompt_tokens_total"] == before["yolk_prompt_tokens_total"]
    SERVER.until_idle()


if __name__ == "__main__":
    with SERVER:
        main()
