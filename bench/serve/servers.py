"""Servers under test: started on a port of their own, watched, ended by their process id."""

import contextlib
import http.client
import os
import shlex
import signal
import socket
import subprocess
import sys
import time


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class server:
    """A process that serves /v1/completions. Ended by stop()."""

    def __init__(self, name, command, log_path):
        self.name = name
        self.port = free_port()
        self.log_path = log_path
        self.peak_bytes = 0
        command = [part.replace("{port}", str(self.port)) for part in command]
        print(f"starting {name}: {shlex.join(command)}", file=sys.stderr)
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def wait_until_healthy(self, limit_seconds=180.0):
        deadline = time.monotonic() + limit_seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.1)
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            raise RuntimeError(f"{self.name} does not become healthy; its output:\n{log.read()[-4000:]}")

    def counted(self, name):
        """The sum of a Prometheus counter over all its labels; 0 where nothing was counted yet."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + "{", name + " ")))

    def note_memory(self):
        """Keeps the largest proportional set size seen. VmHWM would count a page once for each mapping: Yolk's pools of
        KV are shared memory, and each is mapped again by the transfers that read or write it."""
        with open(f"/proc/{self.process.pid}/smaps_rollup", encoding="ascii") as sizes:
            for line in sizes:
                if line.startswith("Pss:"):
                    self.peak_bytes = max(self.peak_bytes, 1024 * int(line.split()[1]))

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def busy_process(limit_seconds=120):
    """A foreign process that never waits, at the servers' own priority; it ends by itself should this one die."""
    loop = f"import time\nend = time.monotonic() + {limit_seconds}\nwhile time.monotonic() < end: pass"
    process = subprocess.Popen([sys.executable, "-c", loop])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def usable_cores():
    return len(os.sched_getaffinity(0))
