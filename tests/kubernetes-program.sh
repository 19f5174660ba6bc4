#!/usr/bin/env bash
# Sourced by scripts that build a Go program within Debian's source package `kubernetes`:
#
#   ensure_program NAME DIRECTORY MORE...
#
# makes sure that the program NAME exists, whose main.go is in DIRECTORY, and prints its path as the
# only line on standard output. A change of main.go or of the files MORE is another program.
#
# Looked at in this order:
#   1. the cache, ${KUBE_GC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/kube-gc}/<directory's name>/<key>;
#   2. a build, kept in that cache.
#
# The caller may define change_source, which is called in the source's directory before the build.
#
# Progress goes to standard error; when there is nothing to do, nothing is said.
set -euo pipefail

# shellcheck source=tests/debian-source.sh
. "$(dirname "${BASH_SOURCE[0]}")/debian-source.sh"

ensure_program() {
  local name=$1 directory=$2 label cache_home key program source started
  shift 2
  label=$(basename "$directory")
  say() { printf '%s: %s\n' "$label" "$*" >&2; }
  die() {
    say "$*"
    exit 1
  }
  cache_home=${KUBE_GC_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither KUBE_GC_CACHE nor HOME is set}/.cache}/kube-gc}
  root=$cache_home/$label
  key=$(cat "$directory/main.go" "$@" | sha256sum | cut -c 1-16)
  program=$root/$key/$name

  if [[ -x $program ]]; then
    printf '%s\n' "$program"
    return
  fi
  wait_for_turn "$root"
  # It may have been built in the meantime.
  if [[ -x $program ]]; then
    printf '%s\n' "$program"
    return
  fi

  begin_build "$root"
  # Debian's own Go: the source is as old as the distribution, and newer compilers do not build it.
  install_missing <<'TOOLS'
/usr/lib/go/bin/go golang-go
dpkg-source dpkg-dev
patch patch
xz xz-utils
TOOLS
  cd "$work"
  open_archive kubernetes-client
  fetch_source kubernetes
  # Go looks for it at this place.
  source=$work/go/src/k8s.io/kubernetes
  mkdir -p "${source%/*}"
  logged dpkg-source -x kubernetes_*.dsc "$source"
  if declare -F change_source >/dev/null; then
    (cd "$source" && change_source)
  fi
  mkdir "$source/cmd/$name"
  cp "$directory/main.go" "$source/cmd/$name/"

  say "building $name on $(nproc) cores (minutes; follow $log)"
  started=$SECONDS
  # A clean environment: Go obeys many variables.
  compile env -i PATH="/usr/lib/go/bin:$PATH" HOME="${HOME:-$work}" LANG=C.UTF-8 TMPDIR="${TMPDIR:-/tmp}" \
    CGO_ENABLED=0 GOPROXY=off GOTOOLCHAIN=local GO111MODULE=off GOPATH="$work/go" GOCACHE="$work/go-cache" \
    go build -ldflags '-s -w' -o "$name" "k8s.io/kubernetes/cmd/$name"
  mkdir stage
  mv "$name" stage/
  rm -rf "${root:?}/$key"
  mv -T stage "$root/$key"
  # What was built of an older driver.
  find "$root" -mindepth 1 -maxdepth 1 -type d ! -name "$key" ! -name '.*' -exec rm -rf {} +
  say "built in $((SECONDS - started)) s, kept in $root/$key"
  printf '%s\n' "$program"
}
