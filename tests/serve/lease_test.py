"""A lease in Kubernetes: of two heads one leads, and never both. The API server is a stand-in for coordination.k8s.io/v1: one
store, reached by a port of its own for each node, so that one of them can be cut off."""
import json
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cluster import Cluster, free_port, refused
from harness import SLOWDOWN, main, test, until

PATH = "/apis/coordination.k8s.io/v1/namespaces/serving/leases"
SECONDS = 1.5 * SLOWDOWN


class Store:
    """Objects by name, each with a version that every change replaces."""

    def __init__(self):
        self.lock = threading.Lock()
        self.objects = {}
        self.version = 0
        self.holders = []  # in the order in which they held it, "" where it was given back

    def get(self, name):
        with self.lock:
            return (200, self.objects[name]) if name in self.objects else (404, {"kind": "Status", "code": 404})

    def put(self, name, given, fresh):
        with self.lock:
            old = self.objects.get(name)
            if fresh != (old is None):
                return (409, {"reason": "AlreadyExists"}) if fresh else (404, {})
            if old and given["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
                return 409, {"reason": "Conflict"}
            assert given["kind"] == "Lease" and given["metadata"]["namespace"] == "serving", given
            self.version += 1
            given["metadata"]["resourceVersion"] = str(self.version)
            self.objects[name] = given
            holder = given["spec"]["holderIdentity"]
            if not self.holders or self.holders[-1] != holder:
                self.holders.append(holder)
            return (201 if fresh else 200), given


class Api:
    """The store as one node sees it; `answers`: nothing = truly, else what it says to everything."""

    def __init__(self, store):
        self.answers = None
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                name = self.path.removeprefix(PATH).lstrip("/")
                if api.answers:
                    status, content = api.answers
                elif self.command == "GET":
                    status, content = store.get(name)
                else:
                    given = json.loads(body)
                    status, content = store.put(given["metadata"]["name"], given, self.command == "POST")
                content = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def lease(self):
        return ("--lease", f"k8s:http://127.0.0.1:{self.server.server_port}/serving/yolk", "--lease-seconds", str(SECONDS))


class Heads:
    """A cluster whose head has an heir."""

    def __init__(self):
        self.store = Store()
        self.apis = (Api(self.store), Api(self.store))
        second = f"127.0.0.1:{free_port()}"
        self.cluster = Cluster(("gateway",), ("prefill", "cache"), ("decode",), head=("conductor",),
                               head_options=self.apis[0].lease(), others=(second,))
        self.head, self.gateway = self.cluster.head, self.cluster.members[0]
        self.heir = self.cluster.add(("conductor",), "--listen", second, *self.apis[1].lease())
        until(lambda: "stands by" in self.heir.output(), "the heir stands by")

    def __enter__(self):
        self.cluster.until_whole(self.gateway)
        return self

    def __exit__(self, *how):
        self.cluster.__exit__(*how)

    def answers(self):
        answer = self.gateway.complete("It was a dark evening, and", max_tokens=8, temperature=0, ignore_eos=True)
        assert answer["usage"]["completion_tokens"] == 8, answer


@test
def takes_over():
    """when the leader dies, the other leads once the lease is over, not before; the former one stands by when it is back"""
    with Heads() as heads:
        heads.answers()
        begin = time.monotonic()
        heads.head.kill()
        heads.heir.until_running()
        print(f"        leads after {time.monotonic() - begin:.2f} s of {SECONDS:.1f}")
        heads.cluster.until_whole(heads.gateway)
        heads.answers()
        heads.head.start()
        until(lambda: "stands by" in heads.head.output(), "the former head stands by")
        assert len(heads.store.holders) == 2, heads.store.holders


@test
def cut_off():
    """who cannot renew ends before another may lead, whatever the API server answers"""
    for answers in ((503, {"kind": "Status"}), (200, ["no", "Lease"]), (200, {"spec": {"holderIdentity": 7}, "metadata": 3})):
        with Heads() as heads:
            heads.apis[0].answers = answers
            until(lambda: heads.head.process.poll() is not None, "the leader ends")
            assert heads.head.process.returncode == 1, heads.head.output()
            assert "lost the lease serving/yolk" in heads.head.output(), heads.head.output()
            heads.heir.until_running()
            heads.cluster.until_whole(heads.gateway)
            heads.answers()


@test
def given_back():
    """who ends gives the lease back, and the other leads at once"""
    with Heads() as heads:
        heads.head.process.send_signal(signal.SIGTERM)
        assert heads.head.process.wait() == 0
        heads.heir.until_running()
        assert len(heads.store.holders) == 3 and heads.store.holders[1] == "", heads.store.holders
        heads.cluster.until_whole(heads.gateway)
        heads.answers()


@test
def stopped():
    """a leader that was stopped for longer than its lease does not lead on when it wakes"""
    with Heads() as heads:
        heads.head.process.send_signal(signal.SIGSTOP)
        heads.heir.until_running()
        heads.head.process.send_signal(signal.SIGCONT)
        until(lambda: heads.head.process.poll() is not None, "the former leader ends")
        assert heads.head.process.returncode == 1, heads.head.output()
        heads.cluster.until_whole(heads.gateway)
        heads.answers()


@test
def named_wrongly():
    """a lease that cannot be is refused with what it may be"""
    with Cluster() as cluster:
        head = ("--role", "conductor", "--listen", "127.0.0.1:0", "--secret-file", cluster.secret)
        refused(*head, "--lease", "k8s:Yolk/One", words=("k8s:Yolk/One", "k8s:URL/NAMESPACE/NAME"))
        refused(*head, "--lease", "k8s:http://127.0.0.1:1/a/B_c", words=("B_c", "lower-case"))
        refused(*head, "--lease", "k8s:yolk", words=("pod", "k8s:URL/NAMESPACE/NAME"))


if __name__ == "__main__":
    main()
