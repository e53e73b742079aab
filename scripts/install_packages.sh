#!/usr/bin/env bash
# Installs what is missing of the Debian packages in scripts/packages.txt. Does nothing, quickly, when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t wanted < <(grep -hv '^#' scripts/packages.txt "$@")
missing=()
installed=$(dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' | awk '$2 ~ /^ii/ {print $1}')
for package in "${wanted[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
