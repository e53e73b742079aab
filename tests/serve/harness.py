"""The real program under test: starts `yolk serve` on a free port, and talks to it over plain sockets.

Every script takes the program as its first argument and, as its second, a part of the names of the tests to run. A
server is ended by its pid, and must end with exit code 0: sanitizers report through that.
"""
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

PROGRAM = os.path.abspath(sys.argv[1])
# Seconds; generous, since machines are busy and sanitizers slow. Nothing waits for it to pass.
SLOWDOWN = float(os.environ.get("YOLK_TEST_SLOWDOWN", "1"))
DEADLINE = 120.0 * SLOWDOWN


def until(condition, what, seconds=DEADLINE):
    """The first true value of condition(), polled."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"did not come within {seconds:.0f} s: {what}")
        time.sleep(0.01)


def group_is_empty(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def system_v_segments(pid):
    """Rows of those that the process made: a segment lasts as long as anybody has it attached."""
    with open("/proc/sysvipc/shm", encoding="ascii") as file:
        rows = [line.split() for line in file]
    column = rows[0].index("cpid")
    return [row for row in rows[1:] if int(row[column]) == pid]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a killed test leaves no server


class Server:
    """`with Server("--max-running", "2") as server:`"""

    def __init__(self, *options, port=0, command=(PROGRAM, "serve")):
        self.log = tempfile.TemporaryFile()
        command = [*command, "--port", str(port), *options]
        # Of its own group, as scripts/serve.sh is: a test may signal the group.
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        start_new_session=True, preexec_fn=die_with_parent)
        try:
            self.url = until(self._url, "the summary's 'serving' line")
        except BaseException:
            self._kill()
            raise
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        self.host, self.port = host.strip("[]"), int(port)

    @classmethod
    def at(cls, host, port):
        """One that something else started."""
        server = cls.__new__(cls)
        server.host, server.port = host, port
        return server

    def _url(self):
        if self.process.poll() is not None:
            raise AssertionError(f"ended with {self.process.returncode}: {self.output()}")
        found = re.search(r"^ *serving +(http://\S+)", self.output(), re.M)
        return found and found.group(1)

    def output(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors="replace")

    def _kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self, signal_number=signal.SIGTERM):
        self.process.send_signal(signal_number)
        try:
            code = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs {DEADLINE:.0f} s after signal {signal_number}: {self.output()}") from None
        assert code == 0, f"exit code {code}: {self.output()}"

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.stop()
            elif self.process.poll() is not None:
                print(f"the server ended with {self.process.returncode}: {self.output()[-4000:]}")
        finally:
            self._kill()
            self.log.close()

    # ------------------------------------------------------------ what tests ask of it
    def connect(self, receive_buffer=None):
        return Connection(self, receive_buffer)

    def ask(self, method, path, body=None, **headers):
        with self.connect() as connection:
            connection.send(method, path, body, **headers)
            return connection.answer()

    def chat(self, content, **fields):
        return self.good("/v1/chat/completions", messages=[{"role": "user", "content": content}], **fields)

    def complete(self, prompt, **fields):
        return self.good("/v1/completions", prompt=prompt, **fields)

    def good(self, path, **fields):
        answer = self.ask("POST", path, fields)
        assert answer.status == 200, answer
        return answer.json()

    def stream(self, path, **fields):
        """The data of all events, parsed; the last must be [DONE], which is left out."""
        with self.connect() as connection:
            connection.send("POST", path, {"stream": True, **fields})
            return connection.whole_stream()

    def metrics(self):
        """{'name{labels}': value}; model_name is left out of the labels."""
        answer = self.ask("GET", "/metrics")
        assert answer.status == 200, answer
        values = {}
        for line in answer.text().splitlines():
            if not line or line.startswith("#"):
                continue
            name, value = line.rsplit(" ", 1)
            name = re.sub(r'model_name="[^"]*",?', "", name).replace("{}", "")
            assert name not in values, f"twice: {name}"
            values[name] = float(value)
        return values

    def cluster(self):
        return self.ask("GET", "/cluster").json()

    def until_idle(self, what="nothing runs, waits or holds blocks"):
        """Polls until reports made after this call say that nothing is held, then returns the last one."""
        seen = []

        def idle():
            now = self.cluster()
            if not seen or now["uptime_seconds"] != seen[-1]:
                seen.append(now["uptime_seconds"])
            # A report repeats what actors said to the one before it.
            return len(seen) > 3 and not self.busy(now) and now

        try:
            return until(idle, what)
        except AssertionError as problem:
            raise AssertionError(f"{problem}; {self.busy(self.cluster())}") from None

    @staticmethod
    def busy(cluster):
        found = [(actor["name"], name, actor[name]) for actor in cluster["actors"]
                 for name in ("queue", "running", "blocks_used") if actor[name]]
        found += [(name, cluster["counters"][name]) for name in ("requests_running", "requests_waiting")
                  if cluster["counters"][name]]
        return found if cluster["actors"] else ["no report yet"]


class Answer:
    def __init__(self, status, headers, body=b""):
        self.status, self.headers, self.body = status, headers, body

    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)

    def error(self):
        """The error object, after a look at its shape."""
        error = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert isinstance(error["message"], str) and error["message"], error
        return error

    def __repr__(self):
        return f"{self.status} {self.body[:600]!r}"


class Connection:
    """One connection, read strictly: what the head announces must come, and nothing else."""

    def __init__(self, server, receive_buffer=None):
        self.server = server
        self.socket = socket.socket(socket.AF_INET6 if ":" in server.host else socket.AF_INET)
        self.socket.settimeout(DEADLINE)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((server.host, server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def reset(self):
        """Closes with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def request_bytes(self, method, path, body=None, **headers):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.server.host}:{self.server.port}"]
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")

    def send(self, method, path, body=None, **headers):
        self.socket.sendall(self.request_bytes(method, path, body, **headers))

    def more(self):
        data = self.socket.recv(1 << 16)
        self.rest += data
        return data

    def take(self, count):
        while len(self.rest) < count:
            assert self.more(), f"ended after {len(self.rest)} of {count} bytes: {self.rest[-300:]!r}"
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def take_until(self, mark):
        while mark not in self.rest:
            assert self.more(), f"ended before {mark!r}: {self.rest[-300:]!r}"
        taken, self.rest = self.rest.split(mark, 1)
        return taken

    def head(self):
        lines = self.take_until(b"\r\n\r\n").decode().split("\r\n")
        version, status = lines[0].split(" ")[:2]
        assert version == "HTTP/1.1", lines
        headers = {}
        for line in lines[1:]:
            name, value = line.split(":", 1)
            assert name.lower() not in headers, lines
            headers[name.lower()] = value.strip()
        return Answer(int(status), headers)

    def pieces(self, answer):
        """The body as it comes."""
        if answer.headers.get("transfer-encoding") == "chunked":
            while size := int(self.take_until(b"\r\n"), 16):
                yield self.take(size)
                assert self.take(2) == b"\r\n"
            assert self.take(2) == b"\r\n"
        elif "content-length" in answer.headers:
            yield self.take(int(answer.headers["content-length"]))
        else:
            assert answer.headers.get("connection") == "close", answer.headers
            while self.rest or self.more():
                yield self.take(len(self.rest))

    def answer(self):
        answer = self.head()
        while answer.status == 100:
            answer = self.head()
        answer.body = b"".join(self.pieces(answer))
        return answer

    def events(self):
        """Each event's data as it comes, comments left out."""
        answer = self.head()
        if answer.status != 200:
            answer.body = b"".join(self.pieces(answer))
            raise AssertionError(f"no stream: {answer}")
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.headers
        text = b""
        for piece in self.pieces(answer):
            text += piece
            while b"\n\n" in text:
                event, text = text.split(b"\n\n", 1)
                if not event.startswith(b":"):
                    assert event.startswith(b"data: ") and b"\n" not in event, event
                    yield event[6:].decode()
        assert text == b"", text

    def whole_stream(self):
        events = list(self.events())
        assert events[-1] == "[DONE]", events[-1]
        assert events.count("[DONE]") == 1, events
        return [json.loads(event) for event in events[:-1]]

    def closed(self):
        """The other side has closed, without a byte more."""
        try:
            return self.rest == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def together(*calls):
    """Runs the calls on threads of their own; their values in order, or the first exception."""
    values = [None] * len(calls)
    problems = []

    def run(index):
        try:
            values[index] = calls[index]()
        except BaseException as problem:  # pylint: disable=broad-except
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return values


TESTS = []


def test(function):
    """Marks a test; its docstring is its name."""
    TESTS.append(function)
    return function


def main():
    chosen = [one for one in TESTS if len(sys.argv) < 3 or sys.argv[2] in one.__doc__]
    failed = 0
    for one in chosen:
        begin = time.monotonic()
        try:
            one()
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"FAILED  {one.__doc__}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"ok      {one.__doc__} ({time.monotonic() - begin:.1f} s)", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    sys.exit(failed != 0 or not chosen)
