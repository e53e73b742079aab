#!/usr/bin/env bash
# Builds and runs all tests:  scripts/test.sh [PRESET] [arguments of ctest]      (default preset: release)
# The presets dev (ASan, UBSan) and tsan run the same suite under sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=release
case ${1:-} in release | dev | tsan) preset=$1; shift ;; esac
scripts/build.sh "$preset"
# serve/openai runs the official client. Node.js of any origin will do; Debian's is installed where there is none.
{ command -v node && command -v npm; } >/dev/null || scripts/install_packages.sh scripts/packages-test.txt ||
  echo "no Node.js: tests that need it are skipped"
scripts/fetch_openai_client.sh || echo "no openai package: serve/openai is skipped"
# One at a time: tests of speed-sensitive parts share two cores badly.
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@"
