#!/usr/bin/env bash
# Three nodes on this machine that serve as one:  scripts/cluster.sh [arguments of the node with the gateway]
# Builds what is missing, then runs, in the foreground and with one secret made for this run:
#   conductor and gateway (port 8000, --port N for another), prefill and cache, decode
# Ctrl-C or SIGTERM ends all three. YOLK_CLUSTER_PORT: where the nodes meet (default 7700).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh release yolk
folder=$(mktemp -d)
head -c 32 /dev/urandom | base64 >"$folder/secret"
door=127.0.0.1:${YOLK_CLUSTER_PORT:-7700}
pids=()
finish() {
  trap - EXIT INT TERM
  # Members first: their streams move, then the head answers what is left.
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill -TERM "${pids[i]}" 2>/dev/null || true
    wait "${pids[i]}" || true
  done
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 0' INT TERM

node() {
  local name=$1
  shift
  build/release/yolk node --secret-file "$folder/secret" --name "$name" "$@" > >(sed -u "s/^/$name | /") 2>&1 &
  pids+=($!)
}
node head --role conductor,gateway --listen "$door" "$@"
node prefill --role prefill,cache --join "$door"
node decode --role decode --join "$door"
wait -n  # one that ends by itself ends all
