#!/usr/bin/env bash
# Measures `yolk serve` end to end:  scripts/bench.sh [--peer LLAMA_SERVER] [arguments of bench/serve/serve_bench.py]
# Builds what is missing, writes a random model of 487 M parameters (once, 2 GB under build/bench), and prints a table.
# The peer is any llama-server (llama.cpp); Debian's unstable distribution has one in llama.cpp-tools. It may be a
# command: --peer "nice llama-server". Without it Yolk's figures and its shares of the machine's limits are shown alone.
# --quick takes a tiny model and a few seconds. docs/performance.md says what each figure means and what it should
# be. Takes some 10 minutes with a peer, 3 without.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh release yolk host_kernels_bench
model=build/bench/random-487m
shape=()
case " $* " in *" --quick "*)
  model=build/bench/random-tiny
  shape=(--layers 2 --hidden 64 --inner 96 --query-heads 4 --kv-heads 2 --head-dim 16 --vocabulary 8000 --context 8192)
esac
if [ ! -f "$model/complete" ]; then
  echo "writing $model"
  mkdir -p "$model"
  python3 bench/tools/make_random_model.py "$model" --gguf "$model/model.gguf" "${shape[@]}"
  touch "$model/complete"
fi
exec python3 bench/serve/serve_bench.py --yolk build/release/yolk --model "$model" --gguf "$model/model.gguf" \
  --limits build/release/bench/gpu/host_kernels_bench "$@"
