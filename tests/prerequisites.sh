#!/usr/bin/env bash
# Installs what a machine with nothing but Rust lacks for building and testing,
# and says so. When nothing is missing, it does and says nothing.
#
#   cc         links, and compiles the C of ring (TLS) and jemalloc
#   make       builds jemalloc
#   curl       asks the test control plane whether it is ready
#   openssl    makes the test control plane's keys
#
# With the argument `image` also what it takes to build the image:
#
#   musl-gcc   links the static binary
#   buildah    makes the image
#   jq         reads it
#
# What building the control plane itself needs, tests/control-plane/ensure.sh
# installs, and only when it has to be built.
set -euo pipefail

missing=()
look_for() {
  while read -r tool packages; do
    # Words, not one name: hence no quotes.
    # shellcheck disable=SC2206
    type -P "$tool" >/dev/null || missing+=($packages)
  done
}
look_for <<'TOOLS'
cc gcc libc6-dev
make make
curl curl ca-certificates
openssl openssl
TOOLS
case ${1:-} in
"") ;;
image)
  look_for <<'TOOLS'
musl-gcc musl-tools
buildah buildah
jq jq
TOOLS
  ;;
*)
  printf 'prerequisites: %s is not known\n' "$1" >&2
  exit 2
  ;;
esac
((${#missing[@]})) || exit 0

say() { printf 'prerequisites: %s\n' "$*" >&2; }

if ! type -P apt-get >/dev/null; then
  say "please install what Debian calls ${missing[*]}"
  exit 1
fi
as_root=()
if ((EUID != 0)); then
  if ! type -P sudo >/dev/null; then
    say "not root, and there is no sudo; please run as root: apt-get install ${missing[*]}"
    exit 1
  fi
  as_root=(sudo)
fi

install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}" </dev/null >"$log" 2>&1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "installing ${missing[*]}"
# Package lists may be absent or old; so one update and one more attempt.
if ! install && ! { "${as_root[@]}" apt-get update </dev/null >"$log" 2>&1 && install; }; then
  tail -n 20 "$log" >&2
  say "cannot install ${missing[*]}"
  exit 1
fi
