"""Nodes are killed and stopped for real while streams run: every client that has a living gateway gets the tokens that
it would have had. YOLK_FAULT_ROUNDS: how often (default: once a role); YOLK_FAULT_SEED: which draws."""
import json
import os
import random
import signal
import tempfile
import threading
import time

from cluster import Cluster, free_port
from harness import DEADLINE, Server, main, system_v_segments, test, together, until
from same_answers import COMPLETIONS, WORDS

ROLES = ("conductor", "gateway", "prefill", "decode", "cache")
ROUNDS = int(os.environ.get("YOLK_FAULT_ROUNDS", len(ROLES)))
SEED = int(os.environ.get("YOLK_FAULT_SEED", time.time_ns() % 1_000_000))
STREAMS = 16


def made(draw):
    asked = []
    for index in range(STREAMS):
        prompt = " ".join(draw.choice(WORDS) for _ in range(draw.choice((3, 40, 150))))
        sampling = {"temperature": 0} if index % 2 else {"temperature": 1.1, "seed": index + 1}
        asked.append({"prompt": prompt, "max_tokens": draw.choice((150, 300)), "ignore_eos": True, **sampling})
    return asked


class Streams:
    """All requests as streams on one gateway, each on a thread of its own."""

    def __init__(self, gateway, asked):
        self.texts = [""] * len(asked)
        self.problems = [None] * len(asked)
        self.events = 0
        self.threads = [threading.Thread(target=self._run, args=(gateway, index, one)) for index, one in enumerate(asked)]
        for thread in self.threads:
            thread.start()

    def _run(self, gateway, index, one):
        try:
            with gateway.connect() as connection:
                connection.send("POST", COMPLETIONS, {"stream": True, **one})
                for event in connection.events():
                    self.events += 1
                    if event == "[DONE]":
                        return
                    data = json.loads(event)
                    if "error" in data:
                        raise AssertionError(data)
                    for choice in data["choices"]:
                        self.texts[index] += choice["text"]
                raise AssertionError("the stream ended without [DONE]")
        except BaseException as problem:  # pylint: disable=broad-except
            self.problems[index] = problem

    def join(self):
        for thread in self.threads:
            thread.join(3 * DEADLINE)
            assert not thread.is_alive(), "a stream hangs"
        return self

    def check(self, want, how):
        for index, problem in enumerate(self.problems):
            assert problem is None, f"{how}: stream {index}: {problem!r}"
        for index, (expected, found) in enumerate(zip(want, self.texts)):
            assert expected == found, f"{how}: stream {index} differs:\n{expected}\n{found}"


def alone(asked):
    with Server() as server:
        return [answer["choices"][0]["text"]
                for answer in together(*[lambda one=one: server.good(COMPLETIONS, **one) for one in asked])]


def big_cluster(*options):
    return Cluster(("gateway",), ("gateway",), ("prefill",), ("prefill",), ("decode",), ("decode",), ("cache",),
                   head=("conductor",), options=options)


@test
def killed():
    """whoever is killed while 16 streams run, each of them goes on to exactly the tokens of an undisturbed run"""
    print(f"        seed {SEED}, {ROUNDS} rounds")
    draw = random.Random(SEED)
    asked = made(draw)
    want = alone(asked)
    with big_cluster() as cluster:
        watched, doomed_gateway = cluster.members[0], cluster.members[1]
        cluster.until_whole(watched)
        for number in range(ROUNDS):
            role = ROLES[number % len(ROLES)]
            victims = [node for node in cluster.nodes if role in node.roles and node is not watched]
            victim = draw.choice(victims)
            streams = Streams(watched, asked)
            lost = Streams(doomed_gateway, asked[:2]) if victim is doomed_gateway else None
            moment = draw.randrange(1, 1500)
            until(lambda: streams.events >= moment, f"event {moment}")
            dead = victim.process.pid
            victim.kill()
            victim.start()
            streams.join().check(want, f"round {number}: {role} killed after {moment} events")
            if lost:
                lost.join()
            victim.until_running()
            cluster.until_whole(watched)
            watched.until_idle(f"round {number}: nothing is held after {role} was killed")
            until(lambda: not system_v_segments(dead), f"round {number}: nobody keeps the memory of the dead {role}")


@test
def lets_go():
    """who had a dead node's KV mapped lets go of it at once, whether or not anything else happens"""
    with Cluster(("prefill",), ("decode",), ("cache",)) as cluster:
        cluster.until_whole()
        cluster.head.complete("The king and his three sons went down to the sea. " * 8, max_tokens=40, ignore_eos=True)
        cluster.head.until_idle()
        for node in cluster.members[:2]:
            dead = node.process.pid
            assert any(int(row[6]) > 1 for row in system_v_segments(dead)), "nobody has it mapped"
            node.kill()
            until(lambda: not system_v_segments(dead), f"the memory of {node.roles} is free")


@test
def hung():
    """a stopped decode or prefill node is taken for dead, its streams go on elsewhere, and it comes back when it wakes"""
    draw = random.Random(SEED + 1)
    asked = made(draw)[:6]
    want = alone(asked)
    with big_cluster("--heartbeat-timeout", "2.5") as cluster:
        watched = cluster.members[0]
        cluster.until_whole(watched)
        for role in ("decode", "prefill"):
            streams = Streams(watched, asked)
            until(lambda: streams.events >= 60, "the streams run")
            victim = cluster.with_role(role)
            victim.process.send_signal(signal.SIGSTOP)
            streams.join().check(want, f"{role} stopped")
            victim.process.send_signal(signal.SIGCONT)
            cluster.until_whole(watched)
            watched.until_idle(f"nothing is held after {role} woke")


@test
def patient():
    """a stopped node is waited for as long as --heartbeat-timeout says: its streams go on where they were"""
    asked = made(random.Random(SEED + 5))[:4]
    want = alone(asked)
    limits = ("--heartbeat-interval", "0.2", "--heartbeat-timeout", "600")
    with Cluster(("prefill",), ("decode",), options=limits) as cluster:
        cluster.until_whole()
        streams = Streams(cluster.head, asked)
        until(lambda: streams.events >= 60, "the streams run")
        decode = cluster.members[1].process
        decode.send_signal(signal.SIGSTOP)
        uptime = cluster.head.cluster()["uptime_seconds"]
        until(lambda: cluster.head.cluster()["uptime_seconds"] > uptime + 6, "the default limit is long over")
        kinds = [actor["kind"] for actor in cluster.head.cluster()["actors"]]
        decode.send_signal(signal.SIGCONT)
        assert "decode_worker" in kinds, kinds
        streams.join().check(want, "stopped for a while")
        assert cluster.head.metrics()['yolk_legs_resumed_total{reason="workerLost"}'] == 0


@test
def leaves():
    """a node that is told to end leaves with exit code 0, and its streams go on elsewhere"""
    draw = random.Random(SEED + 2)
    asked = made(draw)[:6]
    want = alone(asked)
    with big_cluster() as cluster:
        watched = cluster.members[0]
        cluster.until_whole(watched)
        for role in ("decode", "prefill", "cache"):
            streams = Streams(watched, asked)
            until(lambda: streams.events >= 60, "the streams run")
            node = cluster.with_role(role)
            node.stop()
            streams.join().check(want, f"{role} left")
            node.start()
            node.until_running()
            cluster.until_whole(watched)


@test
def drained():
    """yolk ctl drain moves what a node generates and places nothing more there; the cluster goes on without it"""
    draw = random.Random(SEED + 3)
    asked = made(draw)[:8]
    for one in asked:
        one["max_tokens"] = 900  # long enough to be seen and moved
    want = alone(asked)
    with big_cluster() as cluster:
        watched = cluster.members[0]
        cluster.until_whole(watched)

        def running(kind):
            rows = [row.split() for row in cluster.control("status").splitlines() if f" {kind} " in row]
            return {int(row[0]): int(row[3]) for row in rows}

        streams = Streams(watched, asked)
        until(lambda: streams.events >= 100, "the streams run")
        busy = until(lambda: [node for node, count in running("decode_worker").items() if count], "decode is busy")
        cluster.control("drain", str(busy[0]))
        until(lambda: running("decode_worker")[busy[0]] == 0, "nothing runs on the drained node")
        streams.join().check(want, "drained")
        again = Streams(watched, asked)
        until(lambda: again.events >= 100, "the streams run")
        assert running("decode_worker")[busy[0]] == 0, "new work went to the drained node"
        again.join().check(want, "after the drain")
        assert "there is no node 77" in cluster.control("drain", "77", code=1)


@test
def stands_by():
    """when the head dies, the one that stands by leads: running streams go on, and new requests are served"""
    draw = random.Random(SEED + 4)
    asked = made(draw)[:8]
    want = alone(asked)
    lease = os.path.join(tempfile.mkdtemp(), "lease")
    second = f"127.0.0.1:{free_port()}"
    with Cluster(("gateway",), ("prefill",), ("decode",), ("cache",), head=("conductor",), head_options=("--lease", lease),
                 others=(second,)) as cluster:
        heir = cluster.add(("conductor",), "--listen", second, "--lease", lease)
        until(lambda: "stands by" in heir.output(), "it stands by")
        watched = cluster.members[0]
        cluster.until_whole(watched)
        for leader, next_one in ((cluster.head, heir), (heir, cluster.head)):
            streams = Streams(watched, asked)
            until(lambda: streams.events >= 60, "the streams run")
            begin = time.monotonic()
            leader.kill()
            next_one.until_running()
            print(f"        leads after {time.monotonic() - begin:.2f} s")
            fresh = Streams(watched, asked[:2])
            streams.join().check(want, "the head died")
            fresh.join().check(want, "begun without a head")
            leader.start()
            until(lambda: "stands by" in leader.output(), "the former head stands by")
            cluster.until_whole(watched)
            watched.until_idle("nothing is held")


if __name__ == "__main__":
    main()
