"""A client that streams many completions at once and notes when each token arrives. One thread, one selector: it
takes next to nothing of the cores that the servers under test compute on."""

import json
import selectors
import socket
import time


class stream:
    """One streamed completion. Owned by whoever started it; fed by run()."""

    def __init__(self, port, prompt, max_tokens):
        body = json.dumps(
            {
                "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()  # fmt: skip
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began = time.perf_counter()
        self.socket.sendall(head.encode() + body)
        self.times = []  # of arrival, one a token that has text
        self.usage = None
        self.ended = False
        self.unread = b""

    def first_token_seconds(self):
        return self.times[0] - self.began

    def gaps(self, begin, end):
        """Between tokens that arrived in [begin, end]."""
        inside = [t for t in self.times if begin <= t <= end]
        return [b - a for a, b in zip(inside, inside[1:])]

    def feed(self):
        data = self.socket.recv(1 << 16)
        now = time.perf_counter()
        if not data:
            raise RuntimeError("the server closed a stream before its end")
        # Events are searched for as they come: the frames of the chunked encoding lie between lines, never in one,
        # because both servers send whole events.
        self.unread += data
        *lines, self.unread = self.unread.split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                self.event(line[6:].strip(), now)
            elif line.startswith(b"HTTP/1.1 ") and b" 200 " not in line:
                raise RuntimeError(f"the server answered {line.decode().strip()}: {data.decode()}")

    def event(self, text, now):
        if text == b"[DONE]":
            self.close()
            return
        event = json.loads(text)
        if "error" in event:
            raise RuntimeError(f"the server's stream ended with {text.decode()}")
        self.usage = event.get("usage") or self.usage
        if event.get("choices") and event["choices"][0].get("text"):
            self.times.append(now)

    def close(self):
        if not self.ended:
            self.ended = True
            self.socket.close()


def run(streams, on_tokens=None, limit_seconds=600.0):
    """Feeds the streams until all have ended. on_tokens() is called after each read; it may append to the list, or
    close streams."""
    deadline = time.perf_counter() + limit_seconds
    watched = selectors.DefaultSelector()
    known = set()
    try:
        while True:
            for one in streams:
                if one not in known:
                    known.add(one)
                    watched.register(one.socket, selectors.EVENT_READ, one)
            if all(one.ended for one in streams):
                return
            if time.perf_counter() > deadline:
                raise RuntimeError(f"streams did not end within {limit_seconds:.0f} s")
            for key, _ in watched.select(1.0):
                if key.data.ended:
                    continue
                key.data.feed()
                if on_tokens:
                    on_tokens()
            for key in [k for k in watched.get_map().values() if k.data.ended]:
                watched.unregister(key.fileobj)
    finally:
        for one in streams:
            one.close()
        watched.close()
