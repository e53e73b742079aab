"""More than the server takes: bounded queues, 429 with Retry-After, and nothing lost of what was admitted."""
from harness import Server, main, test, together, until

COMPLETIONS = "/v1/completions"
LONG = {"prompt": "Once upon a time", "max_tokens": 1900, "temperature": 0, "ignore_eos": True}
SHORT = {**LONG, "max_tokens": 3}


@test
def bounded():
    """beyond max-running requests wait, beyond max-waiting they are refused with 429 and Retry-After"""
    with Server("--max-running", "1", "--max-waiting", "2") as server:
        runs, waits, more_waits = [server.connect() for _ in range(3)]
        runs.send("POST", COMPLETIONS, {**LONG, "stream": True})
        next(runs.events())
        for index, connection in enumerate((waits, more_waits)):
            connection.send("POST", COMPLETIONS, SHORT)
            until(lambda count=index + 1: server.metrics()["yolk_requests_waiting"] == count, "it waits")
        answer = server.ask("POST", COMPLETIONS, SHORT)
        assert answer.status == 429, answer
        assert int(answer.headers["retry-after"]) >= 1, answer.headers
        assert "limit of 1 prompts in work and 2 waiting" in answer.error()["message"], answer
        assert answer.error()["type"] and server.ask("GET", "/health").status == 200
        streamed = server.ask("POST", COMPLETIONS, {**SHORT, "stream": True})
        assert streamed.status == 429, "a refused stream has a proper status, too"
        more_waits.reset()  # a place in the queue comes free when its client leaves
        until(lambda: server.metrics()["yolk_requests_waiting"] == 1, "the queue has room")
        with server.connect() as next_one:
            next_one.send("POST", COMPLETIONS, SHORT)
            until(lambda: server.metrics()["yolk_requests_waiting"] == 2, "it waits")
            runs.reset()
            for connection in (waits, next_one):
                assert connection.answer().json()["usage"]["completion_tokens"] == 3
        metrics = server.metrics()
        assert metrics['yolk_requests_total{outcome="refused"}'] == 2, metrics
        server.until_idle()


@test
def nothing_waits():
    """with max-waiting 0 the second request is refused"""
    with Server("--max-running", "1", "--max-waiting", "0") as server:
        with server.connect() as runs:
            runs.send("POST", COMPLETIONS, {**LONG, "stream": True})
            next(runs.events())
            assert server.ask("POST", COMPLETIONS, SHORT).status == 429
        until(lambda: server.ask("POST", COMPLETIONS, SHORT).status == 200, "it serves again")


@test
def storm():
    """200 requests at once on 8 places: each is answered or refused, whole"""
    with Server("--max-running", "4", "--max-waiting", "4") as server:
        def one():
            answer = server.ask("POST", COMPLETIONS, {**LONG, "max_tokens": 40})
            if answer.status == 200:
                assert answer.json()["usage"]["completion_tokens"] == 40
            else:
                assert answer.status == 429 and int(answer.headers["retry-after"]) >= 1, answer
            return answer.status

        statuses = together(*[one] * 200)
        metrics = server.metrics()
        assert metrics['yolk_requests_total{outcome="length"}'] == statuses.count(200)
        assert metrics['yolk_requests_total{outcome="refused"}'] == statuses.count(429)
        assert statuses.count(200) >= 8, statuses
        print(f"        {statuses.count(200)} answered, {statuses.count(429)} refused")
        server.until_idle()


@test
def larger_than_places():
    """a request of more prompts than there are places at all is a 400 that names both: it would be refused for ever"""
    with Server("--max-running", "2", "--max-waiting", "3") as server:
        for count in (6, 40):
            answer = server.ask("POST", COMPLETIONS, {**SHORT, "prompt": ["Once"] * count})
            assert answer.status == 400 and answer.error()["param"] == "prompt", answer
            assert f"{count} prompts" in answer.error()["message"] and "at most 5" in answer.error()["message"], answer
        server.until_idle()
        answer = server.ask("POST", COMPLETIONS, {**SHORT, "prompt": ["Once"] * 5})
        assert answer.status == 200 and len(answer.json()["choices"]) == 5, answer
        server.until_idle()


if __name__ == "__main__":
    main()
