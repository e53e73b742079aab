"""The process: its start, its options, its end, and what it leaves behind (nothing)."""
import json
import os
import pty
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from harness import DEADLINE, PROGRAM, Server, group_is_empty, main, system_v_segments, test, until

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
COMPLETIONS = "/v1/completions"
LONG = {"prompt": "Once upon a time", "max_tokens": 1900, "temperature": 0, "ignore_eos": True, "stream": True}


def limited(limits):
    """The program under `ulimit`, and without core files."""
    return "sh", "-c", f'ulimit -c 0; ulimit {limits}; exec "$@"', "sh", PROGRAM


def run(*arguments, text="", command=(PROGRAM,), **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([*command, *arguments], input=text, text=True, timeout=DEADLINE, check=False, **options)


def fails(*arguments, words=(), code=2, command=(PROGRAM,)):
    """It ends with the exit code (2: the command line is wrong, 1: it cannot be done), and says why."""
    ended = run(*arguments, command=command)
    assert ended.returncode == code, (arguments, ended)
    for word in words:
        assert word in ended.stderr, (arguments, word, ended.stderr)
    assert "serving" not in ended.stdout, ended.stdout
    return ended.stderr


def written(text, suffix=""):
    file = tempfile.NamedTemporaryFile("w", suffix=suffix)
    file.write(text)
    file.flush()
    return file


def listens_on(pid):
    """The addresses of the process's listening sockets."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}")))
        except OSError:
            continue  # closed meanwhile
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
        for row in rows:
            if row[3] == "0A" and row[9] in inodes:  # LISTEN
                address = bytes.fromhex(row[1].split(":")[0])
                words = (address[at:at + 4][::-1] for at in range(0, len(address), 4))
                found.append(socket.inet_ntop(family, b"".join(words)))
    return found


def changed_builtin(folder, tensor=None, number=b"", **config):
    """A copy of the builtin model: every value of one tensor is `number` (two bytes), config.json says more."""
    source = os.path.join(ROOT, "model", "builtin")
    for name in os.listdir(source):
        if name.endswith((".json", ".safetensors")):
            shutil.copy(os.path.join(source, name), folder)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        fields = {**json.load(file), **config}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(fields, file)
    if tensor is None:
        return
    with open(os.path.join(folder, "model.safetensors"), "r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        begin, end = json.loads(file.read(length))[tensor]["data_offsets"]
        file.seek(8 + length + begin)
        file.write(number * ((end - begin) // 2))


def shared_files(pid):
    """What the process has of /dev/shm, mapped or open."""
    names = set()
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        names.update(re.findall(r"/dev/shm/\S+", file.read()))
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            name = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if name.startswith("/dev/shm/"):
            names.add(name)
    return names


@test
def ends():
    """SIGTERM to the process group during streams: exit code 0 soon, nothing is left, the port is free at once"""
    port = 0
    for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        server = Server("--prefill-workers", "2", "--decode-workers", "2", "--drain-seconds", "1", port=port)
        with server:
            port = server.port
            pid = server.process.pid
            clients = [server.connect() for _ in range(8)]
            streams = []
            for client in clients:
                client.send("POST", COMPLETIONS, LONG)
                streams.append(client.events())
            for stream in streams:
                next(stream)
            shared = shared_files(pid)
            begin = time.monotonic()
            os.killpg(pid, signal_number)
            code = server.process.wait(DEADLINE)
            took = time.monotonic() - begin
            assert code == 0, (code, server.output())
            for client in clients:
                try:
                    while client.more():
                        pass
                except ConnectionResetError:
                    pass
                client.socket.close()
            until(lambda: group_is_empty(pid), "the group has ended", 5)
            assert system_v_segments(pid) == []
            assert not [name for name in shared if os.path.exists(name)], shared
        print(f"        {signal.Signals(signal_number).name}: ended after {took:.2f} s with 8 streams running")


@test
def script():
    """scripts/serve.sh starts what is built already, and a signal to its group ends it"""
    if PROGRAM != os.path.join(ROOT, "build/release/yolk"):
        print("        not here: the script serves build/release")
        return
    with Server(command=(os.path.join(ROOT, "scripts/serve.sh"),)):
        pass  # whatever there was to build is built now
    begin = time.monotonic()
    with Server("--served-model-name", "by-script", command=(os.path.join(ROOT, "scripts/serve.sh"),)) as server:
        print(f"        serves {time.monotonic() - begin:.2f} s after its second call")
        assert server.ask("GET", "/v1/models").json()["data"][0]["id"] == "by-script"
        os.killpg(server.process.pid, signal.SIGTERM)
        assert server.process.wait(DEADLINE) == 0
        assert group_is_empty(server.process.pid)


@test
def drains():
    """at SIGTERM running answers are finished, and idle connections do not hold up the end"""
    server = Server("--drain-seconds", "100")
    with server:
        idle, used = server.connect(), server.connect()
        used.send("GET", "/version")
        used.answer()
        with server.connect() as client:
            client.send("POST", COMPLETIONS, {**LONG, "max_tokens": 1500})
            events = client.events()
            got = [next(events)]
            server.process.send_signal(signal.SIGTERM)
            got += list(events)
            answered = time.monotonic()
        assert got[-1] == "[DONE]" and len(got) > 1400, (len(got), got[-1])
        assert server.process.wait(DEADLINE) == 0
        assert time.monotonic() - answered < 60, "idle connections held up the end"
        print(f"        ended {time.monotonic() - answered:.2f} s after the answer, which is whole")
        assert idle.closed() and used.closed()
        idle.socket.close()
        used.socket.close()


def last_words(server, clients):
    """What streams get that the end of the server cuts off: an error event, [DONE] and the last chunk."""
    for client in clients:
        events = list(client.events())  # fails without the last chunk
        assert events[-1] == "[DONE]", events[-1]
        error = json.loads(events[-2])["error"]
        assert error["code"] == "shutting_down" and error["type"] == "service_unavailable", error
        assert client.closed()
        client.socket.close()
    assert server.process.wait(DEADLINE) == 0, server.output()


@test
def cut_off():
    """when the drain is over, streams end with an error event, and who has nothing yet gets a 503"""
    for drain, signals in (("0", 1), ("100", 2)):
        with Server("--drain-seconds", drain, "--max-running", "2") as server:
            streams = [server.connect() for _ in range(2)]
            for stream in streams:
                stream.send("POST", COMPLETIONS, {**LONG, "n": 16})
            until(lambda: server.metrics()["yolk_time_to_first_token_seconds_count"] == 2, "both streams have begun")
            queued = server.connect()
            queued.send("POST", COMPLETIONS, {**LONG, "stream": False})
            until(lambda: server.metrics()["yolk_requests_waiting"] == 1, "one waits")
            for _ in range(signals):
                server.process.send_signal(signal.SIGTERM)
                until(lambda: "stopping" in server.output(), "the first signal is taken")
            answer = queued.answer()
            assert answer.status == 503 and answer.error()["code"] == "shutting_down", answer
            assert "retry-after" in answer.headers and answer.headers["connection"] == "close", answer.headers
            last_words(server, streams)
            queued.socket.close()


@test
def killed():
    """after SIGKILL nothing of shared memory is left, and the next start serves on the same port"""
    server = Server()
    pid, port = server.process.pid, server.port
    server.complete("Hello", max_tokens=2)
    shared = shared_files(pid)
    server.process.kill()
    server.process.wait()
    assert system_v_segments(pid) == []
    assert not [name for name in shared if os.path.exists(name)], shared
    with Server(port=port) as again:
        again.complete("Hello", max_tokens=2)


@test
def stopped_and_continued():
    """a process that was stopped for a while goes on with its streams"""
    with Server() as server:
        want = server.stream(COMPLETIONS, **{**LONG, "max_tokens": 600})
        with server.connect() as client:
            client.send("POST", COMPLETIONS, {**LONG, "max_tokens": 600})
            events = client.events()
            got = [next(events)]
            server.process.send_signal(signal.SIGSTOP)
            until(lambda: open(f"/proc/{server.process.pid}/stat", encoding="ascii").read().split()[2] == "T", "it is stopped")
            begin = time.monotonic()
            until(lambda: time.monotonic() > begin + 1, "a second passes")
            server.process.send_signal(signal.SIGCONT)
            got += list(events)
        assert len(got) == len(want) + 1, (len(got), len(want))
        assert server.ask("GET", "/health").status in (200, 503)
        until(lambda: server.ask("GET", "/health").status == 200, "healthy again", 20)


@test
def port_in_use():
    """a port that is taken is said, and the one who has it goes on"""
    with Server() as server:
        fails("serve", "--port", str(server.port), code=1, words=("cannot listen", str(server.port), "in use"))
        server.complete("Hello", max_tokens=1)


@test
def only_where_told():
    """a server alone listens on the loopback only, with its workers' transports too"""
    with Server("--prefill-workers", "2", "--decode-workers", "2") as server:
        server.complete("Hello", max_tokens=2)
        addresses = listens_on(server.process.pid)
        assert addresses and set(addresses) <= {"127.0.0.1", "::1"}, addresses
        assert addresses.count("127.0.0.1") > 1, "the workers' listeners were not seen"


@test
def hosts():
    """the address that is printed can be called, an IPv6 one stands in brackets, an empty one is refused"""
    for host, shown in (("::1", "[::1]"), ("::", "[::1]"), ("0.0.0.0", "127.0.0.1")):
        if ":" in host and not os.path.exists("/proc/net/if_inet6"):
            continue
        with Server("--host", host) as server:
            assert server.url == f"http://{shown}:{server.port}", server.url
            assert server.output().count(server.url) == 2, server.output()
            assert server.cluster()["url"] == server.url
            if ":" in host:
                fails("serve", "--host", host, "--port", str(server.port), code=1, words=(f"[{host}]:{server.port}",))
    fails("serve", "--host", "", "--port", "0", words=("--host", "not empty"))
    fails("serve", "--port", "0", "--threads", "1025", words=("--threads", "1025", "1024"))
    for url in ("http://127.0.0.1:65536", "http://127.0.0.1:0", "http://127.0.0.1:80x", "127.0.0.1:80"):
        fails("chat", "--url", url, words=(url, "http://host:port", "65535"))


@test
def more_clients_than_descriptors():
    """clients beyond the descriptors of the process are told or closed, and those that are served stay served"""
    with Server(command=(*limited("-n 160"), "serve")) as server:
        clients = [server.connect() for _ in range(200)]
        seen = {200: 0, 503: 0, "closed": 0}
        for client in clients:
            try:
                client.send("GET", "/version")
                status = client.answer().status
            except (AssertionError, BrokenPipeError, ConnectionResetError):
                status = "closed"
            seen[status] += 1
        assert seen[200] > 50 and seen[503] > 0 and seen["closed"] > 0, seen
        for client in clients:
            client.socket.close()
        server.complete("Hello", max_tokens=2)
        print(f"        of 200 clients {seen}")


@test
def out_of_descriptors():
    """where accept fails for want of descriptors nothing spins, and clients are answered when there are some"""

    def ticks(pid):
        fields = open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    with Server() as server:
        pid = server.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        waiting = server.connect()  # by the kernel
        waiting.send("GET", "/version")
        used, begin = ticks(pid), time.monotonic()
        until(lambda: time.monotonic() > begin + 2, "two seconds pass")
        used = (ticks(pid) - used) / os.sysconf("SC_CLK_TCK")
        assert used < 0.5, f"{used} s of CPU in 2 s"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert waiting.answer().status == 200
        waiting.socket.close()
        print(f"        took {used:.2f} s of CPU in 2 s without a descriptor")


@test
def too_little_to_start():
    """a start that the system's limits do not allow says which, and leaves no core"""
    fails("serve", "--port", "0", command=limited("-n 40"), code=1, words=("40 files", "at least", "ulimit -n"))
    fails("serve", "--port", "0", "--decode-workers", "64", "--decode-kv", "1MiB",
          command=limited("-n 256"), code=1, words=("at least", "ulimit -n"))
    if PROGRAM != os.path.join(ROOT, "build/release/yolk"):
        return  # sanitizers take more address space than there is
    for kilobytes in (100_000, 300_000, 800_000, 3_000_000):
        fails("serve", "--port", "0", command=limited(f"-v {kilobytes}"), words=("--decode-kv", "ulimit -v"))
    fails("serve", "--port", "0", "--threads", "128", "--prefill-kv", "1MiB", "--decode-kv", "1MiB", "--cache-dram", "1MiB",
          command=limited("-v 900000"), code=1, words=("threads",))


@test
def damaged_model():
    """a model without finite logits is a 500 that says so, and no stream of one token for ever"""
    for number in (b"\xff\xff", b"\x80\x7f"):  # NaN, infinity in BF16
        with tempfile.TemporaryDirectory() as folder:
            changed_builtin(folder, "model.norm.weight", number)
            with Server("--model", folder) as server:
                for n in (1, 3):
                    answer = server.ask("POST", COMPLETIONS, {"prompt": "Hello", "max_tokens": 5, "n": n})
                    assert answer.status == 500, answer
                    assert "no finite logits" in answer.error()["message"], answer
                server.until_idle()
                assert not [value for name, value in server.metrics().items()
                            if name.startswith("yolk_actor_restarts_total") and value]


@test
def short_context():
    """a model whose context is shorter than two blocks is refused by the block's size, not by the pools'"""
    with tempfile.TemporaryDirectory() as folder:
        changed_builtin(folder, max_position_embeddings=20)
        fails("serve", "--port", "0", "--model", folder, words=("--block-tokens", "20 tokens"))
        with Server("--model", folder, "--block-tokens", "8") as server:
            server.complete("Hi", max_tokens=2)


@test
def wrong_options():
    """a wrong option names the option, its value and what may be"""
    fails("serve", "--no-such-option", words=("--no-such-option",))
    fails("serve", "extra", words=("extra",))
    fails("serve", "--port", "99999", words=("--port", "99999", "65535"))
    fails("serve", "--port", "http", words=("--port", "http"))
    fails("serve", "--prefill-workers", "0", words=("--prefill-workers", "1", "64"))
    fails("serve", "--block-tokens", "17", words=("--block-tokens", "17"))
    fails("serve", "--cache-dram", "much", words=("--cache-dram", "much"))
    fails("serve", "--cache-dram", "12XB", words=("--cache-dram", "12XB", "GiB"))
    fails("serve", "--host", "", words=("--host", "empty"))
    assert "--prefill-kv" not in fails("serve", "--decode-kv", "5", "--port", "0", words=("--decode-kv", "two blocks"))
    assert "--decode-kv" not in fails("serve", "--prefill-kv", "5", "--port", "0", words=("--prefill-kv", "two blocks"))
    fails("serve", "--cache-ssd", "/proc/none", "--port", "0", code=1, words=("SSD", "/proc/none"))
    fails("serve", "--cache-write-policy", "sometimes", words=("--cache-write-policy", "through"))
    fails("serve", "--cache-eviction", "fifo", words=("--cache-eviction", "lru", "length_aware"))
    fails("serve", "--cache-save-ahead", "2", words=("--cache-save-ahead", "0", "1"))
    fails("serve", "--device", "abacus", words=("--device", "abacus", "host"))
    fails("serve", "--device", "cuda", words=("--device cuda", "without CUDA"))
    fails("serve", "--host", "no.such.host.invalid", "--port", "0", code=1, words=("no.such.host.invalid",))
    fails("serve", "--model", "/no/such/folder", words=("--model", "/no/such/folder"))
    fails("serve", "--cors-origin", "*\r\nX-Evil: 1", words=("--cors-origin", "control characters"))
    fails("serve", "--served-model-name", "", words=("--served-model-name", "empty"))
    fails("serve", "--served-model-name", "a\nb", words=("--served-model-name", "control characters"))
    with tempfile.TemporaryDirectory() as folder:
        fails("serve", "--model", folder, words=("--model", folder, "config.json"))
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            file.write('{"model_type": "telepathy"}')
        fails("serve", "--model", folder, words=("--model", folder))
    fails(words=("subcommand",))
    fails("no-such-command", words=("no-such-command", "serve"))
    fails("model", "no-such-command", words=("no-such-command", "inspect"))
    fails("chat", "--api-key-file", "/no/such/file", words=("--api-key-file", "/no/such/file"))


@test
def key_files():
    """a key file that is missing, empty, or says a thing twice is refused with its line"""
    fails("serve", "--api-keys", "/no/such/file", words=("--api-keys", "/no/such/file"))
    for text, word in (("", "no key"), ("# only a comment\n", "no key"), ("a b c\n", ":1"), ("x t\nx u\n", ":2")):
        with written(text) as file:
            fails("serve", "--api-keys", file.name, words=("--api-keys", file.name, word))


def summary(server):
    return re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", server.output())


@test
def config_file():
    """a configuration file says the same as the command line, which wins over it"""
    options = ["--served-model-name", "named", "--prefill-workers", "2", "--decode-workers", "3", "--cache-dram", "64MiB",
               "--prefill-kv", "8MiB", "--decode-kv", "16MiB", "--threads", "1", "--max-running", "1", "--max-waiting", "0"]
    with Server(*options) as server:
        want = summary(server)
    pairs = [(name[2:], value) for name, value in zip(options[::2], options[1::2])]
    toml = "".join(f'{name} = "{value}"\n' if not value.isdigit() else f"{name} = {value}\n" for name, value in pairs)
    ini = "# a comment\n" + "".join(f"{name}={value}\n" for name, value in pairs)
    for text in (toml, ini):
        with written(text, ".toml") as file:
            with Server("--config", file.name) as server:
                assert summary(server) == want, (summary(server), want)
                with server.connect() as runs:  # limits without a line in the summary hold, too
                    runs.send("POST", COMPLETIONS, LONG)
                    next(runs.events())
                    assert server.ask("POST", COMPLETIONS, {"prompt": "x"}).status == 429
            with Server("--config", file.name, "--served-model-name", "other") as server:
                assert server.ask("GET", "/v1/models").json()["data"][0]["id"] == "other"
    with written("port = 0\nno-such-option = 5\n") as file:
        fails("serve", "--config", file.name, words=("no-such-option",))
    with written("max-running = many\n") as file:
        fails("serve", "--config", file.name, "--port", "0", words=("--max-running", "many"))
    with written("[other]\nmax-running = 5\n") as file:
        fails("serve", "--config", file.name, "--port", "0", words=("other",))
    fails("serve", "--config", "/no/such/file", words=("--config", "/no/such/file"))
    fails("serve", "--config", "/tmp", words=("/tmp",))


@test
def help_and_version():
    """--help names every option, --version the version that /version tells"""
    assert {"serve", "chat", "model"} <= set(run("--help").stdout.split())
    shown = run("serve", "--help").stdout
    for option in ("--host", "--port", "--model", "--prefill-workers", "--decode-workers", "--cache-dram", "--cache-ssd", "--api-keys",
                   "--device", "--config", "--max-running", "--max-waiting"):
        assert option in shown, option
    version = run("--version").stdout.split()
    with Server() as server:
        assert version == ["yolk", server.ask("GET", "/version").json()["version"]], version
        assert server.output().count("\n") <= 12, "a short summary"


@test
def inspect():
    """model inspect says what the model is and what KV costs"""
    shown = run("model", "inspect")
    assert shown.returncode == 0, shown
    for word in ("builtin", "llama", "GQA", "2048 bytes a token", "tokenizer", "context"):
        assert word in shown.stdout, (word, shown.stdout)
    fails("model", "inspect", "/no/such/folder", words=("/no/such/folder",))


@test
def chat():
    """yolk chat through a pipe answers each line, and says what went wrong"""
    with Server() as server:
        spoken = run("chat", "--url", server.url, "--temperature", "0", "--max-tokens", "8", "--stats", text="Hello\nAnd then?\n")
        assert spoken.returncode == 0, spoken
        first = server.chat("Hello", temperature=0, max_tokens=8)["choices"][0]["message"]["content"]
        assert first.strip() in spoken.stdout, (first, spoken.stdout)
        assert spoken.stderr.count("prompt tokens cached") == 2, spoken.stderr
        refused = run("chat", "--url", server.url, "--model", "other", text="Hello\n")
        assert refused.returncode != 0 and "404" in refused.stderr and "other" in refused.stderr, refused
    with written("\nsk-test more\n") as keys, Server("--api-keys", keys.name) as server:
        assert run("chat", "--url", server.url, text="Hello\n").returncode == 1
        spoken = run("chat", "--url", server.url, "--api-key-file", keys.name, "--max-tokens", "2", text="Hello\n")
        assert spoken.returncode == 0, spoken
    fails_to_connect = run("chat", "--url", server.url, text="Hello\n")
    assert fails_to_connect.returncode == 1 and "cannot connect" in fails_to_connect.stderr, fails_to_connect


def answering(events, end=b"0\r\n\r\n"):
    """A server for one chat that sends these events, and its URL."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        client = listener.accept()[0]
        client.recv(1 << 16)
        body = b"".join(b"data: " + event + b"\n\n" for event in events)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                       + b"%x\r\n%s\r\n" % (len(body), body) + end)
        client.close()
        listener.close()

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def saying(text):
    return json.dumps({"choices": [{"delta": {"content": text}}]}).encode()


@test
def chat_with_a_bad_server():
    """yolk chat tells an answer that is no JSON, or has no end, from a whole one"""
    whole = run("chat", "--url", answering([saying("fine"), b"[DONE]"]), text="Hello\n")
    assert whole.returncode == 0 and whole.stdout == "fine\n", whole
    for events, end, word in (([saying("a"), b"{no json}", b"[DONE]"], b"0\r\n\r\n", "no JSON"),
                              ([saying("a"), b"", b"[DONE]"], b"0\r\n\r\n", "no JSON"),
                              ([saying("a")], b"0\r\n\r\n", "broke off"), ([saying("a")], b"", "broke off")):
        ended = run("chat", "--url", answering(events, end), text="Hello\n")
        assert ended.returncode == 1 and word in ended.stderr, (events, ended)


@test
def chat_to_where_nothing_fits():
    """yolk chat fails when its output is full"""
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = run("chat", "--url", answering([saying("a"), b"[DONE]"]), text="Hello\n", stdout=full)
    assert ended.returncode == 1 and "cannot be written" in ended.stderr, ended


@test
def chat_at_a_terminal():
    """what the model writes does not steer the terminal; a pipe gets it as it is"""
    evil = "a\x1b[2J\x9b\tb\n"
    assert run("chat", "--url", answering([saying(evil), b"[DONE]"]), text="x\n").stdout == evil + "\n"
    terminal, end = pty.openpty()
    ended = run("chat", "--url", answering([saying(evil), b"[DONE]"]), text="x\n", stdout=end)
    os.close(end)
    shown = b""
    try:
        while data := os.read(terminal, 4096):
            shown += data
    except OSError:  # EIO: nobody has the other end any more
        pass
    os.close(terminal)
    assert ended.returncode == 0 and shown == b"a^[[2JM-^[\tb\r\n\r\n", (ended, shown)


if __name__ == "__main__":
    main()
