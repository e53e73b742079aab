"""The SSD tier of the prefix cache: what was computed before a restart, or before a kill, is read after it."""
import os
import signal
import tempfile

from harness import Server, main, test, until

PROMPT = [5 + index % 400 for index in range(200)]
FIELDS = {"max_tokens": 8, "temperature": 0, "ignore_eos": True}
BLOCKS = 12  # whole ones of 16 tokens


def ask(server, prompt):
    """(answer's text, cached tokens)"""
    answer = server.complete(prompt, **FIELDS)
    return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def blocks(server, event):
    return server.metrics()[f'yolk_ssd_blocks_total{{event="{event}"}}']


@test
def restart():
    """a prompt is read from SSD after a restart, whatever the write policy wrote it"""
    for policy in ("through", "back"):
        with tempfile.TemporaryDirectory() as folder:
            options = ("--cache-ssd", folder, "--cache-ssd-bytes", "64MiB", "--cache-write-policy", policy)
            with Server(*options) as server:
                text, cached = ask(server, PROMPT)
                assert cached == 0
                server.until_idle()
            with Server(*options, "--threads", "1") as server:
                until(lambda: blocks(server, "restored") >= BLOCKS, "blocks are there again")
                assert ask(server, PROMPT) == (text, BLOCKS * 16)
                assert ask(server, PROMPT[:100] + PROMPT[:100])[1] == 96
                assert blocks(server, "check_failed") == 0
            assert sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)) < 64 << 20


@test
def killed():
    """after kill -9 in the middle of saves the server starts, and what it finds is right"""
    with tempfile.TemporaryDirectory() as folder, Server() as other:
        for round_number in range(5):
            prompt = [7 + round_number] + PROMPT
            with Server("--cache-ssd", folder) as server:
                want, _ = ask(other, prompt)
                assert ask(server, prompt)[0] == want
                if round_number > 0:
                    before = [6 + round_number] + PROMPT
                    assert ask(server, before)[0] == ask(other, before)[0]
                server.process.send_signal(signal.SIGKILL)
                server.process.wait()
                server.stop = lambda: None


@test
def spoilt():
    """blocks whose bytes changed on disk are computed again"""
    with tempfile.TemporaryDirectory() as folder:
        with Server("--cache-ssd", folder) as server:
            text, _ = ask(server, PROMPT)
            server.until_idle()
        for name in os.listdir(folder):
            if name == "lock":
                continue
            with open(os.path.join(folder, name), "r+b") as file:
                bytes_ = bytearray(file.read())
                bytes_[5000::3000] = bytes(byte ^ 255 for byte in bytes_[5000::3000])
                file.seek(0)
                file.write(bytes_)
        with Server("--cache-ssd", folder) as server:
            assert ask(server, PROMPT) == (text, 0)


if __name__ == "__main__":
    main()
