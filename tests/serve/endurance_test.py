"""Many requests, wrong bytes and clients that leave, drawn from a seed: the server neither grows nor hangs."""
import os
import random
import sys

from harness import Server, main, test, together, until

COMPLETIONS = "/v1/completions"
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 20261130
ROUNDS = int(sys.argv[4]) if len(sys.argv) > 4 else 50


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


@test
def does_not_grow():
    """after thousands of short requests there are no more descriptors, and hardly more memory, than before"""
    with Server("--cache-dram", "1MiB", "--prefill-kv", "4MiB", "--decode-kv", "4MiB") as server:
        def some(first, count):
            with server.connect() as connection:
                for index in range(first, first + count):
                    connection.send("POST", COMPLETIONS, {"prompt": [5 + index % 2000, 7, 9], "max_tokens": 2, "n": 1 + index % 2,
                                                          "stream": index % 3 == 0, "cache_salt": str(index)})
                    connection.whole_stream() if index % 3 == 0 else connection.answer()

        def load(requests, refusals):
            together(*[lambda first=first: some(first, requests // 8) for first in range(0, requests, requests // 8)])
            with server.connect() as connection:
                for _ in range(refusals):
                    connection.send("POST", COMPLETIONS, {"prompt": "x", "max_tokens": 0})
                    connection.answer()
            server.until_idle()

        # Twice the same, since a session's memory lives until its next tick: a second of them is always there.
        load(1600, 8000)
        before = resident_bytes(server), descriptors(server)
        load(1600, 8000)
        after = resident_bytes(server), descriptors(server)
        print(f"        {(after[0] - before[0]) / 2**20:.1f} MiB more after 1,600 requests and 8,000 refusals")
        # The server closes a connection a moment after its client did.
        until(lambda: descriptors(server) <= before[1], f"as few descriptors as before, {before[1]}", 20)
        if b"__asan_init" not in open(server.process.args[0], "rb").read():  # its quarantine grows
            assert after[0] - before[0] < 14 << 20, (before, after)  # 2 KiB each would be 21


def wrong_bytes(draw, request):
    """A request that was cut, repeated, or had bytes changed."""
    data = bytearray(request)
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(data))
        match draw.randrange(5):
            case 0:
                data[at] = draw.randrange(256)
            case 1:
                del data[at:at + draw.randrange(1, 20)]
            case 2:
                data[at:at] = data[:draw.randrange(1, 60)]
            case 3:
                data[at:at] = draw.choice((b"\r\n", b"\0", b"{", b'"', b"\r\n\r\n", b"1e999", b"\xff", b"[" * 40, b"-"))
            case _:
                del data[at:]
        if not data:
            break
    return bytes(data)


def misbehave(server, seed):
    """One client that does one thing, right or wrong."""
    draw = random.Random(seed)
    body = {"prompt": [5 + draw.randrange(1500) for _ in range(draw.choice((1, 20, 90)))], "n": draw.choice((1, 1, 3)),
            "max_tokens": draw.choice((1, 8, 60)), "stream": draw.random() < 0.5, "seed": draw.randrange(4), "ignore_eos": True}
    with server.connect() as connection:
        connection.socket.settimeout(60)
        path = draw.choice((COMPLETIONS, COMPLETIONS, "/v1/chat/completions", "/tokenize", "/cluster", "/nothing"))
        request = connection.request_bytes("POST", path, body)
        try:
            match draw.randrange(4):
                case 0:  # right, and read to the end
                    connection.socket.sendall(connection.request_bytes("POST", COMPLETIONS, body))
                    connection.whole_stream() if body["stream"] else connection.answer()
                    assert connection.rest == b"", connection.rest[:200]
                case 1:  # leaves early
                    connection.socket.sendall(request)
                    connection.socket.settimeout(draw.random() * 0.02 + 1e-4)
                    connection.more()
                    connection.reset() if draw.random() < 0.5 else None
                case 2:  # wrong bytes; what is still owed never comes
                    connection.socket.sendall(wrong_bytes(draw, request))
                    connection.socket.shutdown(1)
                    while connection.more():
                        pass
                case 3:  # several, some wrong, in small pieces
                    data = request + wrong_bytes(draw, request) + request
                    while data:
                        count = draw.randrange(1, 300)
                        connection.socket.sendall(data[:count])
                        data = data[count:]
                    connection.socket.settimeout(0.05)
                    connection.more()
        except TimeoutError:
            assert connection.socket.gettimeout() < 1, f"no answer, seed {seed}"
        except (ConnectionResetError, BrokenPipeError):
            pass


@test
def storms():
    """right and wrong clients, side by side, in pools too small for all: right answers stay the same"""
    fixed = {"prompt": "Once upon a time there was", "max_tokens": 30, "temperature": 1, "seed": 3, "ignore_eos": True}
    print(f"        seed {SEED}, {ROUNDS} rounds")
    with Server("--prefill-workers", "2", "--decode-workers", "2", "--chunk-tokens", "16", "--prefill-kv", "1MiB",
                "--decode-kv", "1MiB", "--cache-dram", "512KiB", "--max-running", "12", "--max-waiting", "100") as server:
        want = server.good(COMPLETIONS, **fixed)["choices"]
        for round_ in range(ROUNDS):
            seeds = [SEED + 100 * round_ + index for index in range(12)]
            *_, got = together(*[lambda seed=seed: misbehave(server, seed) for seed in seeds],
                               lambda: server.ask("POST", COMPLETIONS, fixed))
            assert got.status == 200 and got.json()["choices"] == want, (seeds, got)
        server.until_idle(f"nothing is held after the storm of seed {SEED}")
        metrics = server.metrics()
        cancelled = metrics['yolk_requests_total{outcome="cancelled"}']
        print(f"        {metrics['yolk_preemptions_total']:.0f} preemptions, {cancelled:.0f} cancelled")


if __name__ == "__main__":
    main()
