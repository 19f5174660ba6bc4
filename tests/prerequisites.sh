#!/usr/bin/env bash
# Installs the tools that building and testing need in addition to Rust, and says
# which. If none is missing, it does nothing and prints nothing.
#
#   cc         links, and compiles the C of AWS-LC (TLS) and jemalloc
#   make       builds jemalloc
#   curl       checks whether the test control plane is ready
#   openssl    generates the keys of the test control plane
#
# With the argument `image`, also the tools that build the image:
#
#   musl-gcc   links the static binary
#   buildah    builds the image
#   jq         inspects it
#
# With the argument `arm64`, also the compiler of static binaries for that architecture, on another one. It is
# in packages of Debian for arm64:
#
#   aarch64-linux-musl-gcc   compiles the C, and Debian's compiler for glibc links
#
# With the argument `containers`, also the tools that run containers. Where systemd runs,
# Debian's package starts containerd as a service, too:
#
#   containerd, ctr   the container runtime
#   runc              starts containers for it
#   busybox           the program in the containers; it has to be the static one
#
# With the argument `browser`, also the tools that test the page:
#
#   chromium, chromedriver   the browser, with a font for its pictures, and the program that drives it
#   npm                      fetches axe-core and TypeScript, which check the page; on Debian, npm brings
#                            some 400 small packages
#
# With the argument `clients`, also the tools that test the Go module and the Python file, which
# start a collector:
#
#   go         compiles the Go module
#   pytest     runs the tests in Python
#
# tests/control-plane/ensure.sh installs what the build of the control plane needs,
# and only if it has to be built.
set -euo pipefail

missing=()
look_for() {
  while read -r tool packages; do
    # Unquoted, because it may be several packages.
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
arm64)
  look_for <<'TOOLS'
aarch64-linux-musl-gcc gcc-aarch64-linux-gnu musl-dev:arm64
TOOLS
  ;;
containers)
  look_for <<'TOOLS'
containerd containerd
ctr containerd
runc runc
busybox busybox-static
TOOLS
  ;;
clients)
  look_for <<'TOOLS'
go golang-go
pytest python3-pytest
TOOLS
  ;;
browser)
  look_for <<'TOOLS'
chromium chromium fonts-inter
chromedriver chromium-driver
npm npm
TOOLS
  ;;
*)
  printf 'prerequisites: unknown argument %s\n' "$1" >&2
  exit 2
  ;;
esac
((${#missing[@]})) || exit 0

say() { printf 'prerequisites: %s\n' "$*" >&2; }

if ! type -P apt-get >/dev/null; then
  say "install the equivalents of these Debian packages: ${missing[*]}"
  exit 1
fi
as_root=()
if ((EUID != 0)); then
  if ! type -P sudo >/dev/null; then
    say "run as root, because sudo is not installed: apt-get install ${missing[*]}"
    exit 1
  fi
  as_root=(sudo)
fi

install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}" </dev/null >"$log" 2>&1
}
[[ ${missing[*]} != *:arm64* ]] || "${as_root[@]}" dpkg --add-architecture arm64
log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "installing ${missing[*]}"
# Package lists may be missing or old, so update them once and try again.
if ! install && ! { "${as_root[@]}" apt-get update </dev/null >"$log" 2>&1 && install; }; then
  tail -n 20 "$log" >&2
  say "cannot install ${missing[*]}"
  exit 1
fi
