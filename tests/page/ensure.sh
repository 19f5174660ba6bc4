#!/usr/bin/env bash
# Prints the directory that has the packages of npm for the tests of the page:
#
#   tests/page/ensure.sh
#
# They are stored in ${KUBE_GC_CACHE:-~/.cache/kube-gc}/page. No script of theirs is run.
set -euo pipefail

packages=(axe-core@4.14.1 typescript@7.0.2)

cache=${KUBE_GC_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither KUBE_GC_CACHE nor HOME is set}/.cache}/kube-gc}
kept=$cache/page
mkdir -p "$kept"
# One at a time. A second process finds the result.
exec 9>"$kept.lock"
flock 9
if [[ $(cat "$kept/packages" 2>/dev/null) != "${packages[*]}" ]]; then
  printf 'page: fetching %s (only once; stored in %s)\n' "${packages[*]}" "$kept" >&2
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! npm install --prefix "$kept" --ignore-scripts --no-audit --no-fund --no-save "${packages[@]}" </dev/null >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    printf 'page: npm cannot fetch %s\n' "${packages[*]}" >&2
    exit 1
  fi
  printf '%s' "${packages[*]}" >"$kept/packages"
fi
printf '%s\n' "$kept/node_modules"
