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

ensure_program() {
  local name=$1 directory=$2 label cache_home key program source started status=0 install
  local needed=()
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
  # shellcheck source=tests/debian-source.sh
  . "$(dirname "${BASH_SOURCE[0]}")/debian-source.sh"
  type -P flock >/dev/null || die "flock (package util-linux) is needed to build it"
  mkdir -p "$root"
  exec 9>"$root/.lock"
  if ! flock -n 9; then
    say "another caller is building; waiting for it"
    flock 9
  fi
  # Another caller may have built it.
  if [[ -x $program ]]; then
    printf '%s\n' "$program"
    return
  fi

  rm -rf "$root"/.build.* 2>/dev/null || :
  work=$(mktemp -d "$root/.build.XXXXXX")
  log=$root/build.log
  build=
  clean_up() {
    if [[ -n $build ]]; then
      kill -KILL -- "-$build" 2>/dev/null || :
      { wait "$build" || :; } 2>/dev/null
    fi
    rm -rf "$work"
  }
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  : >"$log"

  # Debian's own Go: the source is as old as the distribution, and newer compilers do not build it.
  [[ -x /usr/lib/go/bin/go ]] || needed+=(golang-go)
  type -P dpkg-source >/dev/null || needed+=(dpkg-dev)
  type -P patch >/dev/null || needed+=(patch)
  type -P xz >/dev/null || needed+=(xz-utils)
  if ((${#needed[@]})); then
    ((EUID == 0)) || die "please run as root: apt-get install ${needed[*]}"
    say "installing ${needed[*]}"
    install=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y
      --no-install-recommends "${needed[@]}")
    if ! "${install[@]}" >>"$log" 2>&1 </dev/null 9>&-; then
      logged apt-get update
      logged "${install[@]}"
    fi
  fi

  cd "$work"
  fetch_source kubernetes-client kubernetes
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
  # A process group of its own: a signal to this script is then handled at once, and ends all the
  # compilers. An environment of its own: Go obeys many variables.
  set -m
  env -i PATH="/usr/lib/go/bin:$PATH" HOME="${HOME:-$work}" LANG=C.UTF-8 TMPDIR="${TMPDIR:-/tmp}" CGO_ENABLED=0 \
    GOPROXY=off GOTOOLCHAIN=local GO111MODULE=off GOPATH="$work/go" GOCACHE="$work/go-cache" \
    go build -ldflags '-s -w' -o "$name" "k8s.io/kubernetes/cmd/$name" >>"$log" 2>&1 </dev/null 9>&- &
  build=$!
  set +m
  wait "$build" || status=$?
  build=
  if ((status)); then
    tail -n 30 "$log" >&2
    die "the build failed (whole log: $log)"
  fi
  mkdir stage
  mv "$name" stage/
  rm -rf "${root:?}/$key"
  mv -T stage "$root/$key"
  # What was built of an older driver.
  find "$root" -mindepth 1 -maxdepth 1 -type d ! -name "$key" ! -name '.*' -exec rm -rf {} +
  say "built in $((SECONDS - started)) s, kept in $root/$key"
  printf '%s\n' "$program"
}
