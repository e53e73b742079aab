#!/usr/bin/env bash
# Style, then what CI runs (scripts/test.sh): format, layers, sizes, tidy, build, tests.
#   scripts/check.sh          everything
#   scripts/check.sh --quick  without tidy, build and tests
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_packages.sh scripts/packages-check.txt

mapfile -t sources < <(git ls-files '*.cpp' '*.hpp' '*.inl')
echo "format: ${#sources[@]} files"
clang-format --dry-run --Werror "${sources[@]}"
python3 scripts/check_layers.py
python3 scripts/check_sizes.py
[ "${1:-}" = --quick ] && exit 0

scripts/build.sh release
echo "tidy"
# Left out: files for one instruction set, and the one that asks for CPU features which Debian 12's clang cannot name.
mapfile -t compiled < <(git ls-files '*.cpp' | grep -v '^tests/\|^bench/\|^gpu/host/kernels\|^gpu/host/host_platform.cpp')
printf '%s\n' "${compiled[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/release --quiet --warnings-as-errors='*' 2>/dev/null
scripts/test.sh
