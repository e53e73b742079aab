"""API keys: who may ask, and what tenants see of one another (nothing)."""
import tempfile

from harness import Server, main, test

PROMPT = "The old clock in the hall had stopped at a quarter past nine. " * 6
BODY = {"prompt": PROMPT, "max_tokens": 2, "temperature": 0, "ignore_eos": True}
KEYS = tempfile.NamedTemporaryFile("w", suffix=".keys")
KEYS.write("# key tenant\nkey-a tenant-a\nkey-a2 tenant-a\nkey-b tenant-b\nlonely\n")
KEYS.flush()
SERVER = Server("--api-keys", KEYS.name)


def ask(key, **more):
    answer = SERVER.ask("POST", "/v1/completions", {**BODY, **more}, Authorization=f"Bearer {key}")
    assert answer.status == 200, answer
    return answer.json()


def cached(key, **more):
    return ask(key, **more)["usage"]["prompt_tokens_details"]["cached_tokens"]


@test
def no_key_no_answer():
    """without a right key everything that computes is 401, what watches is open"""
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}, {"Authorization": "Bearer key-"},
                    {"Authorization": "Basic key-a"}, {"Authorization": "key-a"}, {"Authorization": "Bearer key-a x"},
                    {"Authorization": "Bearer " + "k" * 5000}):
        for method, path in (("POST", "/v1/completions"), ("POST", "/v1/chat/completions"), ("GET", "/v1/models"),
                             ("POST", "/tokenize"), ("POST", "/detokenize")):
            answer = SERVER.ask(method, path, BODY if method == "POST" else None, **headers)
            assert answer.status == 401, (headers, path, answer)
            assert answer.error()["code"] == "invalid_api_key", answer
            assert "key-a" not in answer.text()
    for path in ("/", "/health", "/version", "/metrics", "/cluster"):
        assert SERVER.ask("GET", path).status == 200, path
    assert SERVER.ask("GET", "/v1/models", Authorization="bearer key-a").status == 200, "the scheme's case is free"


@test
def tenants_share_nothing():
    """tenants see no hits of each other's prompts; keys of one tenant share them"""
    assert cached("key-a") == 0
    hit = cached("key-a")
    assert hit > 0
    assert cached("key-a2") == hit, "two keys of a tenant"
    for key in ("key-b", "lonely"):
        assert cached(key) == 0, key
        assert cached(key) == hit, key
    assert cached("key-a", cache_salt="tenant-b") == 0
    assert cached("key-b", cache_salt="tenant-b") == 0
    assert cached("key-a", cache_salt="") == hit, "no salt is the empty salt"


@test
def tenants_get_the_same_answer():
    """whose request it is changes no token"""
    answers = {ask(key, max_tokens=16)["choices"][0]["text"] for key in ("key-a", "key-a2", "key-b", "lonely")}
    assert len(answers) == 1, answers


@test
def nothing_is_told():
    """the open pages tell nothing of prompts or keys"""
    for path in ("/metrics", "/cluster", "/health", "/version"):
        shown = SERVER.ask("GET", path).text()
        for secret in ("key-a", "lonely", "tenant", "clock"):
            assert secret not in shown, (path, secret)
    assert "key-a" not in SERVER.output()


if __name__ == "__main__":
    with SERVER, KEYS:
        main()
