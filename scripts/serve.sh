#!/usr/bin/env bash
# From a fresh clone to a served model:  scripts/serve.sh [arguments of `yolk serve`]
# Installs what is missing, builds (release), then serves on port 8000 in the foreground.
set -euo pipefail
cd "$(dirname "$0")/.."
case " $* " in *" --help "* | *" -h "*) [ ! -x build/release/yolk ] || exec build/release/yolk serve "$@" ;; esac
scripts/build.sh release yolk
exec build/release/yolk serve "$@"
