"""Sockets that behave badly: none holds what it does not need, none disturbs another."""
import json
import random
import socket
import time

from harness import Server, main, test, together, until

SERVER = Server()
COMPLETIONS = "/v1/completions"
SHORT = {"prompt": "Once upon a time", "max_tokens": 3, "temperature": 0, "ignore_eos": True}
LONG = {"prompt": "Once upon a time", "max_tokens": 2000, "temperature": 0, "ignore_eos": True}


def text(answer):
    assert answer.status == 200, answer
    return answer.json()["choices"][0]["text"]


def cancelled():
    return SERVER.metrics()['yolk_requests_total{outcome="cancelled"}']


@test
def disconnects():
    """a client that leaves in mid-stream frees everything, whether it closes or resets"""
    before = cancelled()
    for leave in ("close", "reset"):
        for stream in (True, False):
            connection = SERVER.connect()
            connection.send("POST", COMPLETIONS, {**LONG, "stream": stream})
            if stream:
                next(connection.events())
            else:
                until(lambda: SERVER.metrics()["yolk_requests_running"] == 1, "the request runs")
            connection.reset() if leave == "reset" else connection.socket.close()
            until(lambda: SERVER.metrics()["yolk_requests_running"] == 0, f"nothing runs after {leave}", 20)
    until(lambda: cancelled() == before + 4, f"4 more requests cancelled, now {cancelled()} of {before}", 20)
    SERVER.until_idle()


@test
def disconnects_anywhere():
    """clients that leave at random moments leave nothing behind"""
    seed = 1
    draw = random.Random(seed)
    want = text(SERVER.ask("POST", COMPLETIONS, SHORT))
    for _ in range(60):
        connections = [SERVER.connect() for _ in range(4)]
        for connection in connections:
            prompt = [5 + draw.randrange(900) for _ in range(draw.choice((3, 40, 700)))]
            connection.send("POST", COMPLETIONS, {**LONG, "prompt": prompt, "max_tokens": draw.choice((1, 30, 600)),
                                                  "n": draw.choice((1, 3)), "stream": draw.random() < 0.7})
        connections[0].socket.settimeout(draw.random() * 0.05 + 1e-3)
        try:
            connections[0].more()
        except TimeoutError:
            pass
        for connection in connections:
            connection.reset() if draw.random() < 0.5 else connection.socket.close()
    assert text(SERVER.ask("POST", COMPLETIONS, SHORT)) == want, f"seed {seed}"
    SERVER.until_idle()


@test
def half_closed():
    """a half-closed connection is a client that left"""
    with SERVER.connect() as connection:
        connection.send("POST", COMPLETIONS, {**LONG, "stream": True})
        next(connection.events())
        connection.socket.shutdown(socket.SHUT_WR)
        until(lambda: SERVER.metrics()["yolk_requests_running"] == 0, "nothing runs", 20)
        while connection.more():
            pass
    with SERVER.connect() as connection:
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.closed(), connection.rest


@test
def pipelined():
    """pipelined requests are answered in order, mixed with streams and refusals"""
    want = text(SERVER.ask("POST", COMPLETIONS, SHORT))
    with SERVER.connect() as connection:
        parts = []
        for index in range(12):
            parts += [connection.request_bytes("POST", COMPLETIONS, {**SHORT, "max_tokens": 1 + index % 3}),
                      connection.request_bytes("POST", COMPLETIONS, {**SHORT, "stream": True}),
                      connection.request_bytes("POST", COMPLETIONS, {**SHORT, "n": 0}),
                      connection.request_bytes("GET", "/version")]
        connection.socket.sendall(b"".join(parts))
        for index in range(12):
            answer = connection.answer()
            assert answer.json()["usage"]["completion_tokens"] == 1 + index % 3, answer
            streamed = connection.whole_stream()
            assert "".join(event["choices"][0]["text"] for event in streamed) == want
            assert connection.answer().status == 400
            assert connection.answer().json()["version"]
        assert connection.rest == b""


@test
def dribbled():
    """a request that comes byte by byte is answered as any other"""
    want = text(SERVER.ask("POST", COMPLETIONS, SHORT))
    with SERVER.connect() as connection:
        for byte in connection.request_bytes("POST", COMPLETIONS, SHORT):
            connection.socket.sendall(bytes([byte]))
        assert text(connection.answer()) == want


@test
def chunked():
    """a chunked body and 100-continue are understood"""
    want = text(SERVER.ask("POST", COMPLETIONS, SHORT))
    body = json.dumps(SHORT).encode()
    with SERVER.connect() as connection:
        connection.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                                  b"Expect: 100-continue\r\n\r\n")
        assert connection.head().status == 100
        for begin in range(0, len(body), 7):
            piece = body[begin:begin + 7]
            connection.socket.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.socket.sendall(b"0\r\n\r\n")
        assert text(connection.answer()) == want


@test
def large_bodies():
    """a body of 16 MiB is read, one byte more is 413, and others are served meanwhile"""
    limit = 16 << 20
    rest = len(json.dumps({**SHORT, "unknown": ""}).encode())
    body = json.dumps({**SHORT, "unknown": "x" * (limit - rest)}).encode()
    assert len(body) == limit
    large, *small = together(lambda: SERVER.ask("POST", COMPLETIONS, body),
                             *[lambda: SERVER.ask("POST", COMPLETIONS, SHORT)] * 4)
    assert len({text(answer) for answer in (large, *small)}) == 1
    with SERVER.connect() as connection:
        connection.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (limit + 1))
        answer = connection.answer()  # from the length alone
        assert answer.status == 413 and str(limit) in answer.error()["message"], answer
        assert connection.closed()
    over = SERVER.ask("POST", COMPLETIONS, {**SHORT, "prompt": "word " * 3_000_000})
    assert over.status == 400 and over.error()["code"] == "context_length_exceeded", over


@test
def malformed():
    """what is no HTTP is refused and closed"""
    cases = {b"GARBAGE\r\n\r\n": 400, b"GET / HTTP/9.9\r\nHost: x\r\n\r\n": 505, b"GET / HTTP/1.1\r\n\r\n": 400,
             b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n": 400, b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n": 400,
             b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n": 400,
             b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n": 400,
             b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
             b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n": 501,
             b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n": 400,
             b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n": 400, b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n": 400,
             b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40_000 + b"\r\n\r\n": 431,
             b"GET /" + b"y" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n": 431,
             b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 200 + b"\r\n": 431}
    for bytes_, status in cases.items():
        with SERVER.connect() as connection:
            connection.socket.sendall(bytes_)
            answer = connection.answer()
            assert answer.status == status, (bytes_[:80], answer)
            assert connection.closed(), bytes_[:80]


@test
def slow_reader():
    """a client that does not read holds up nobody, and gets all of its answer when it does read"""
    fields = {**LONG, "logprobs": 20, "stream": True, "max_tokens": 1500}
    want = SERVER.stream(COMPLETIONS, **fields)
    assert len(json.dumps(want)) > 1 << 20
    slow = SERVER.connect(receive_buffer=1 << 17)  # far less than the answer
    slow.send("POST", COMPLETIONS, fields)
    until(lambda: SERVER.metrics()["yolk_requests_running"] == 1, "the slow client's request runs")
    for _ in range(10):
        text(SERVER.ask("POST", COMPLETIONS, SHORT))
    until(lambda: SERVER.metrics()["yolk_requests_running"] == 0, "the slow client's request was computed")
    got = slow.whole_stream()
    assert [event["choices"] for event in got] == [event["choices"] for event in want]
    slow.socket.close()


@test
def idle_connections():
    """hundreds of idle connections, some with half a request, stop nobody"""
    idle = [SERVER.connect() for _ in range(300)]
    for connection in idle[::2]:
        connection.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    for _ in range(5):
        text(SERVER.ask("POST", COMPLETIONS, SHORT))
    idle[1].send("POST", COMPLETIONS, SHORT)
    text(idle[1].answer())
    for connection in idle:
        connection.socket.close()
    until(lambda: SERVER.ask("GET", "/health").status == 200, "healthy afterwards")


@test
def short_requests_beside_a_long_prompt():
    """a short request behind a cancelled long one starts at once"""
    long_prompt = [5 + index % 900 for index in range(2000)]
    connections = [SERVER.connect() for _ in range(8)]
    for index, connection in enumerate(connections):
        connection.send("POST", COMPLETIONS, {**SHORT, "prompt": [5 + index] + long_prompt})
    for connection in connections:
        connection.reset()
    begin = time.monotonic()
    text(SERVER.ask("POST", COMPLETIONS, SHORT))
    print(f"        a short request behind 8 cancelled prompts of 2,000 tokens took {time.monotonic() - begin:.2f} s")
    SERVER.until_idle()


if __name__ == "__main__":
    with SERVER:
        main()
