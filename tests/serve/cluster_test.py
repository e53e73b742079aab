"""Several processes as one server: who may join, what is told of them, and the same answers as from one process."""
import os
import re
import signal
import socket
import subprocess
import tempfile

from cluster import Cluster, Node, free_port, refused
from harness import DEADLINE, PROGRAM, Server, group_is_empty, main, test, until
from same_answers import ask_all, compare, requests

THREE = (("prefill", "cache"), ("decode",))


@test
def same():
    """prefill, decode and gateway in processes of their own answer what one process answers, to the last digit"""
    made = requests()[:8]
    with Server() as alone:
        want = ask_all(alone, made)
    with Cluster(("prefill",), ("prefill", "cache"), ("decode",), ("decode", "cache"), ("gateway",)) as cluster:
        cluster.until_whole()
        compare(want, ask_all(cluster.head, made), "in six processes")
        compare(want, ask_all(cluster.with_role("gateway"), made), "cached, in six processes")
        compare(want, ask_all(cluster.members[4], made), "through the second gateway")


@test
def next_turn():
    """a conversation's next turn finds prompt and answer of the first, whichever prefill node computes it"""
    with Cluster(("prefill",), ("cache",), ("decode",)) as cluster:
        cluster.until_whole()
        first = "The old king had three sons and a white ship that lay at anchor in the bay. " * 4
        answer = cluster.head.complete(first, max_tokens=64, temperature=0, ignore_eos=True)
        known = answer["usage"]["total_tokens"]
        # A node that never saw the first turn computes the second: what it has comes from the shard.
        cluster.members[0].kill()
        cluster.members[0].start()
        cluster.members[0].until_running()
        cluster.until_whole()
        second = first + answer["choices"][0]["text"] + " And then"

        def found():
            usage = cluster.head.complete(second, max_tokens=1, temperature=0)["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"] >= known - 32
        until(found, "the second turn finds the first one's blocks in the shard")


@test
def picture():
    """/cluster at any gateway shows the actors of all nodes, and /health fails while a node has lost its head"""
    with Cluster(("prefill", "cache"), ("decode",), ("gateway",)) as cluster:
        gateway = cluster.members[2]
        cluster.until_whole(gateway)
        kinds = [actor["kind"] for actor in gateway.cluster()["actors"]]
        assert kinds.count("http_gateway") == 2 and "conductor" in kinds, kinds
        names = [actor["name"] for actor in gateway.cluster()["actors"] if actor["kind"].endswith("worker")]
        assert len(set(names)) == len(names), names
        cluster.head.kill()
        until(lambda: gateway.ask("GET", "/health").status == 503, "the gateway says that its head is gone")
        cluster.head.start()
        cluster.head.until_running()
        cluster.until_whole(gateway)


def names(metrics, series, label):
    return [re.search(rf'{label}="([^"]*)"', name).group(1) for name in metrics if name.startswith(series + "{")]


@test
def watched():
    """Prometheus sees every node, with or without a gateway, and tells them and their workers apart"""
    with Cluster(("prefill",), ("decode",), ("decode",), ("cache",), ("prefill",)) as cluster:
        cluster.until_whole()
        cluster.head.complete("The king and his three sons went down to the sea. " * 8, max_tokens=40, ignore_eos=True)
        monitors = [node.monitor() for node in cluster.members]
        for monitor in monitors:
            until(lambda monitor=monitor: monitor.ask("GET", "/health").status == 200, "the node is healthy")
        scraped = [monitor.metrics() for monitor in (*monitors, cluster.head)]
        workers = [name for one in scraped for name in names(one, "yolk_kv_usage_ratio", "id")]
        assert 3 <= len(workers) == len(set(workers)), workers  # those that had something to do
        for kind, members in (("prefill", (0, 4)), ("decode", (1, 2))):
            steps = [one[f'yolk_step_time_seconds_count{{kind="{kind}"}}'] for one in scraped]
            assert sum(steps) > 0 and sum(steps) == sum(steps[one] for one in members), (kind, steps)
        for path in ("/v1/completions", "/cluster", "/"):
            assert monitors[0].ask("GET", path).status == 404, path
        cluster.head.kill()
        until(lambda: "no head" in monitors[0].ask("GET", "/health").text(), "the node says that its head is gone")
        assert monitors[0].ask("GET", "/health").status == 503
        cluster.head.start()
        cluster.head.until_running()
        until(lambda: monitors[0].ask("GET", "/health").status == 200, "the node is healthy again")


@test
def watched_apart():
    """a server with --metrics answers there without clients' paths; what cannot be listened on is told"""
    port = free_port()
    address = f"127.0.0.1:{port}"
    with Server("--metrics", address) as server:
        monitor = Server.at("127.0.0.1", port)
        assert monitor.metrics()['yolk_requests_total{outcome="stop"}'] == 0
        until(lambda: monitor.ask("GET", "/health").status == 200, "healthy")
        assert monitor.ask("POST", "/v1/completions", {"prompt": "The"}).status == 404
        node = ["node", "--role", "conductor", "--listen", "127.0.0.1:0", "--secret-file", __file__]
        for command in (["serve", "--port", "0"], node):
            for given, code in ((address, 1), ("9400", 2)):
                ended = subprocess.run([PROGRAM, *command, "--metrics", given], capture_output=True, text=True,
                                       timeout=DEADLINE, check=False)
                assert ended.returncode == code and "--metrics" in ended.stderr and given in ended.stderr, ended
        assert server.ask("GET", "/metrics").status == 200


@test
def incomplete():
    """a cluster that cannot serve for want of a worker says so, until there is one"""
    with Cluster(("prefill",)) as cluster:
        def answer():
            return cluster.head.ask("GET", "/health")
        until(lambda: "no decode worker" in answer().text(), "the head misses a decode worker")
        assert answer().status == 503
        cluster.add(("decode",), "--join", cluster.address).until_running()
        until(lambda: answer().status == 200, "the cluster can serve")


@test
def refusals():
    """a node with another model, block size or role that is taken is refused with the reason, and ends"""
    with Cluster(*THREE) as cluster:
        join = ("--join", cluster.address, "--secret-file", cluster.secret)
        refused("--role", "decode", *join, "--block-tokens", "32", code=1, words=("--block-tokens is 32", "16"))
        refused("--role", "prefill,conductor", *join, words=("--join",))
        refused("--role", "decode", "--secret-file", cluster.secret, words=("--join",))
        refused("--role", "decode", *join, "--listen", "0.0.0.0:0", words=("--advertise",))
        refused("--role", "decode", *join, "--heartbeat-interval", "2", words=("--heartbeat-timeout: 2.5 s", "twice", "2 s"))
        refused("--role", "decode", *join, "--heartbeat-timeout", "0.8", words=("--heartbeat-timeout", "0.8", "600"))
        with tempfile.NamedTemporaryFile("w") as short:
            refused("--role", "decode", "--join", cluster.address, "--secret-file", short.name, words=("16", "secret"))
        cluster.until_whole()


@test
def strangers():
    """who does not know the secret can neither join nor disturb, whatever he sends to a door"""
    with Cluster(*THREE) as cluster:
        cluster.until_whole()
        with tempfile.NamedTemporaryFile("w") as wrong:
            wrong.write("another secret, long enough to be taken")
            wrong.flush()
            stranger = Node(("decode",), "--join", cluster.address, "--secret-file", wrong.name)
            try:
                until(lambda: "joining" in stranger.output(), "the stranger tells that it does not get in")
                assert "running" not in stranger.output(), stranger.output()
            finally:
                stranger.stop()
                stranger.log.close()
        port = int(cluster.address.rsplit(":", 1)[1])
        for bytes_ in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\0" * 32, b""):
            with socket.create_connection(("127.0.0.1", port), DEADLINE) as door:
                door.sendall(bytes_)
        assert len(cluster.head.cluster()["actors"]) == 6, cluster.head.cluster()["actors"]
        assert cluster.head.complete("The king", max_tokens=4, temperature=0)["usage"]["completion_tokens"] == 4


@test
def patience():
    """a node that is started before its head waits for it"""
    with tempfile.NamedTemporaryFile("w") as secret:
        secret.write("a secret that both of them know")
        secret.flush()
        address = f"127.0.0.1:{free_port()}"
        early = Node(("prefill", "decode", "cache"), "--join", address, "--secret-file", secret.name)
        head = None
        try:
            until(lambda: "joining" in early.output(), "it tells whom it waits for")
            assert early.monitor().ask("GET", "/health").status == 503 and early.monitor().ask("GET", "/metrics").status == 200
            head = Node(("conductor", "gateway"), "--listen", address, "--port", "0", "--secret-file", secret.name)
            head.until_running()
            early.until_running()
            until(lambda: head.ask("GET", "/health").status == 200, "healthy")
            until(lambda: head.ask("POST", "/v1/completions", {"prompt": "The", "max_tokens": 2}).status == 200, "served")
        finally:
            for node in (head, early):
                if node:
                    node.stop()
                    node.log.close()


@test
def script():
    """scripts/cluster.sh starts three nodes that serve, and a signal ends them all"""
    root = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    if PROGRAM != os.path.join(root, "build/release/yolk"):
        print("        not here: the script runs build/release")
        return
    os.environ["YOLK_CLUSTER_PORT"] = str(free_port())
    with tempfile.TemporaryFile() as log:
        port = free_port()
        command = [os.path.join(root, "scripts/cluster.sh"), "--port", str(port)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            server = Server.at("127.0.0.1", port)

            def served():
                try:
                    return server.ask("POST", "/v1/completions", {"prompt": "The", "max_tokens": 2}).status == 200
                except OSError:
                    return False
            until(served, "the three nodes serve")
            process.terminate()
            assert process.wait(DEADLINE) == 0
            until(lambda: group_is_empty(process.pid), "no process of the script is left")
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


if __name__ == "__main__":
    main()
