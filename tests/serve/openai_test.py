"""The official openai package, unmodified, against the real server: tests/openai/run.mjs. Skipped (77) only where Node.js
or the package is not there; scripts/test.sh fetches it."""
import os
import shutil
import subprocess
import sys
import tempfile

from harness import DEADLINE, Server, main, test

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NODE = shutil.which("node") or shutil.which("nodejs")


def passes(server, key=""):
    environment = {**os.environ, "BASE_URL": server.url, "API_KEY": key}
    ended = subprocess.run([NODE, os.path.join(ROOT, "tests/openai/run.mjs")], env=environment, capture_output=True, text=True,
                           timeout=2 * DEADLINE, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    print("        " + ended.stdout.strip().splitlines()[-1])
    server.until_idle()


@test
def default_server():
    """the package's tests pass on a server as it starts by default"""
    with Server() as server:
        passes(server)


@test
def with_keys_and_workers():
    """they pass with an API key on 2 prefill and 2 decode workers, small chunks and small pools"""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("secret\n")
        file.flush()
        with Server("--api-keys", file.name, "--prefill-workers", "2", "--decode-workers", "2", "--chunk-tokens", "32",
                    "--prefill-kv", "4MiB", "--decode-kv", "4MiB", "--cache-dram", "4MiB") as server:
            passes(server, "secret")


if __name__ == "__main__":
    if NODE is None or not os.path.exists(os.path.join(ROOT, "build/npm/openai/node_modules/openai/package.json")):
        print("skipped: needs Node.js and scripts/fetch_openai_client.sh")
        sys.exit(77)
    main()
