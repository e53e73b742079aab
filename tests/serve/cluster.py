"""A cluster of real processes: `yolk node` with some roles each, killed and started again as a test likes."""
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from harness import DEADLINE, PROGRAM, Server, die_with_parent, until


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Node(Server):
    """One `yolk node`. May have no gateway: then nothing of it can be asked over HTTP."""

    def __init__(self, roles, *options):  # pylint: disable=super-init-not-called
        self.roles = roles
        self.command = [PROGRAM, "node", "--role", ",".join(roles), *options]
        self.process = None
        self.start()

    def start(self):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        start_new_session=True, preexec_fn=die_with_parent)

    def state(self):
        """'serving …', 'running', or nothing yet."""
        if self.process.poll() is not None:
            raise AssertionError(f"{self.roles} ended with {self.process.returncode}: {self.output()}")
        found = re.search(r"^ *(serving +http://\S+|running)$|^ *(serving +http://\S+) ", self.output(), re.M)
        return found and (found.group(1) or found.group(2))

    def until_running(self):
        state = until(self.state, f"{self.roles} runs")
        if state.startswith("serving"):
            self.url = state.split()[-1]
            self.host, port = self.url.removeprefix("http://").split(":")
            self.port = int(port)
        return self

    def door(self):
        return int(until(lambda: re.search(r"^ *door +\S+:(\d+)$", self.output(), re.M), "the door's port").group(1))

    def monitor(self):
        """What answers --metrics."""
        found = until(lambda: re.search(r"^ *metrics +http://(\S+):(\d+)/metrics ", self.output(), re.M), "the metrics' port")
        return Server.at(found.group(1), int(found.group(2)))

    def kill(self):
        self._kill()

    def end(self):
        """As an operator would; the exit code must be 0."""
        if self.process.poll() is None:
            self.stop()


def refused(*options, words, code=2):
    """What `yolk node` says that does not get to run; 2: by the command line itself; 1: by the cluster."""
    ended = subprocess.run([PROGRAM, "node", *options], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert ended.returncode == code, ended
    for word in words:
        assert word in ended.stderr, (word, ended.stderr)


class Cluster:
    """`with Cluster(("gateway",), ("prefill", "cache"), ("decode",)) as cluster:` beside a node with the conductor."""

    def __init__(self, *members, head=("conductor", "gateway"), options=(), head_options=(), others=()):
        self.folder = tempfile.mkdtemp()
        self.secret = os.path.join(self.folder, "secret")
        with open(self.secret, "w", encoding="ascii") as file:
            file.write("a secret of this test alone " + os.urandom(16).hex())
        # Who is slow, under a sanitizer or on a busy machine, is not dead.
        patience = () if "--heartbeat-timeout" in options else ("--heartbeat-timeout", "30")
        self.options = ("--secret-file", self.secret, *patience, *options)
        port = free_port()  # the head is started again under the same one
        self.address = f"127.0.0.1:{port}"
        self.nodes = []
        try:
            self.head = self.add(head, "--listen", self.address, *head_options)
            join = ",".join((self.address, *others))
            self.members = [self.add(roles, "--join", join) for roles in members]
            for node in self.nodes:
                node.until_running()
        except BaseException:
            self.__exit__(AssertionError, None, None)
            raise

    def add(self, roles, *options):
        http = ("--port", str(free_port())) if "gateway" in roles else ()
        self.nodes.append(Node(roles, *options, *http, *self.options))
        return self.nodes[-1]

    def control(self, *words, code=0):
        """What `yolk ctl …` prints."""
        ended = subprocess.run([PROGRAM, "ctl", "--join", self.address, "--secret-file", self.secret, *words],
                               capture_output=True, text=True, timeout=DEADLINE, check=False)
        assert ended.returncode == code, ended
        return ended.stdout + ended.stderr

    def with_role(self, role):
        return next(node for node in self.nodes if role in node.roles)

    def until_whole(self, gateway=None):
        """All nodes' actors are in the head's picture, and it calls itself healthy."""
        asked = gateway or self.with_role("gateway")
        kinds = {"prefill": "prefill_worker", "decode": "decode_worker", "cache": "cache_shard"}
        want = sorted(kinds[role] for node in self.nodes for role in node.roles if role in kinds)

        def whole():
            have = sorted(actor["kind"] for actor in asked.cluster()["actors"] if actor["kind"] in kinds.values())
            return have == want and asked.ask("GET", "/health").status == 200

        until(whole, f"the cluster has {want}")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                for node in reversed(self.nodes):
                    node.end()
            else:
                for node in self.nodes:
                    print(f"{node.roles}: {node.process.poll()}: {node.output()[-2000:]}")
        finally:
            for node in self.nodes:
                if node.process.poll() is None:
                    node.process.send_signal(signal.SIGCONT)
                node.kill()
                node.log.close()
            shutil.rmtree(self.folder, ignore_errors=True)


__all__ = ["Cluster", "Node", "free_port", "refused", "DEADLINE"]
