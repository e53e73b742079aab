#!/bin/bash
# Installs the official openai npm package, unmodified and at a pinned version, into build/npm/openai, for
# tests/openai/run.mjs. Does nothing when it is there already.
set -euo pipefail
version=6.30.1
folder="$(cd "$(dirname "$0")/.." && pwd)/build/npm/openai"
installed="$folder/node_modules/openai/package.json"
if [ -f "$installed" ] && grep -q "\"version\": \"$version\"" "$installed"; then
  exit 0
fi
command -v npm >/dev/null || { echo "fetch_openai_client: npm is not installed" >&2; exit 1; }
mkdir -p "$folder"
npm install --prefix "$folder" --no-package-lock --no-audit --no-fund --loglevel=error "openai@$version"
echo "fetch_openai_client: openai $version in $folder"
