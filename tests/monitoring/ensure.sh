#!/usr/bin/env bash
# Prints the directory that has prometheus and promtool for the tests:
#
#   tests/monitoring/ensure.sh
#
# It uses those on PATH if both exist. Otherwise it unpacks Debian's package, because an
# installation would also start Prometheus on the default port. The files are stored in
# ${KUBE_GC_CACHE:-~/.cache/kube-gc}/prometheus.
set -euo pipefail

say() { printf 'prometheus: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

found=$(type -P prometheus || true)
if [[ -n $found && -x ${found%/*}/promtool ]]; then
  printf '%s\n' "${found%/*}"
  exit 0
fi

cache=${KUBE_GC_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither KUBE_GC_CACHE nor HOME is set}/.cache}/kube-gc}
kept=$cache/prometheus
mkdir -p "$cache"
# One at a time. A second process finds the result.
exec 9>"$cache/prometheus.lock"
flock 9
if [[ ! -x $kept/promtool ]]; then
  type -P apt-get >/dev/null || die "put prometheus and promtool (2.40 or newer) on PATH"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  as_root=()
  ((EUID == 0)) || as_root=(sudo)
  download() { apt-get -o "APT::Sandbox::User=$(id -un)" download prometheus >log 2>&1; }
  say "fetching Debian's package (only once; stored in $kept)"
  # Package lists may be missing or old, so update them once and try again.
  if ! download && ! { "${as_root[@]}" apt-get update </dev/null >log 2>&1 && download; }; then
    tail -n 20 log >&2
    die "cannot fetch the package prometheus"
  fi
  dpkg-deb -x prometheus_*.deb package
  rm -rf "$kept"
  mv package/usr/bin "$kept"
fi
printf '%s\n' "$kept"
