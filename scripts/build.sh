#!/usr/bin/env bash
# Installs, configures and builds:  scripts/build.sh [PRESET] [TARGET …]     (default: release, everything)
# Run again, it does only what has changed, and nothing at all within a second when nothing has.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true

scripts/install_packages.sh
if [ ! -f "build/$preset/build.ninja" ]; then
  echo "configuring build/$preset"
  mkdir -p "build/$preset"
  cmake --preset "$preset" >"build/$preset/configure.log" 2>&1 || { cat "build/$preset/configure.log" >&2; exit 1; }
fi
# Ninja's own progress line where people look; one line every so often elsewhere.
if [ -t 1 ]; then
  ninja -C "build/$preset" "$@"
else
  NINJA_STATUS='[%f/%t %es] ' ninja -C "build/$preset" "$@" | awk 'NR % 20 == 1 || /FAILED|error|warning|^ninja/ {print; fflush()}'
fi
