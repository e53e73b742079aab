#!/usr/bin/env bash
# Three nodes on this machine that serve as one:  scripts/cluster.sh [arguments of the node with the gateway]
# Builds what is missing, then runs, in the foreground and with one secret made for this run:
#   conductor and gateway (port 8000, --port N for another), prefill and cache, decode
# Ctrl-C or SIGTERM ends all three; one that is killed is started again. YOLK_CLUSTER_PORT: where the nodes meet (default 7700).
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

declare -A name_of
node() {
  local name=$1
  shift
  build/release/yolk node --secret-file "$folder/secret" --name "$name" "$@" > >(sed -u "s/^/$name | /") 2>&1 &
  pids+=($!)
  name_of[$!]=$name
}
start() {
  case $1 in
    head) node head --role conductor,gateway --listen "$door" "${options[@]}" ;;
    prefill) node prefill --role prefill,cache --join "$door" ;;
    decode) node decode --role decode --join "$door" ;;
  esac
}
options=("$@")
for name in head prefill decode; do start "$name"; done
# Whoever is killed is started again, so that its streams find a worker; one that ends by itself ends all.
while true; do
  code=0
  wait -n -p ended "${pids[@]}" || code=$?
  [ "$code" -gt 128 ] || exit "$code"
  name=${name_of[$ended]}
  echo "$name was killed: started again"
  kept=()
  for pid in "${pids[@]}"; do [ "$pid" = "$ended" ] || kept+=("$pid"); done
  pids=("${kept[@]}")
  start "$name"
done
