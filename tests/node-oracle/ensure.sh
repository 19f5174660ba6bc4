#!/usr/bin/env bash
# Makes sure that the kubelet's own garbage collectors exist as a program, and prints its path as the
# only line on standard output.
#
# Looked at in this order:
#   1. the cache, ${KUBE_GC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/kube-gc}/node-oracle/<key>;
#   2. a build of main.go within Debian's source package `kubernetes`, kept in that cache.
#
# Progress goes to standard error; when there is nothing to do, nothing is said.
set -euo pipefail

say() { printf 'node-oracle: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache_home=${KUBE_GC_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither KUBE_GC_CACHE nor HOME is set}/.cache}/kube-gc}
root=$cache_home/node-oracle
# A changed driver is another program.
key=$(cat "$here/main.go" "$here/ensure.sh" | sha256sum | cut -c 1-16)
program=$root/$key/kubelet-gc

if [[ -x $program ]]; then
  printf '%s\n' "$program"
  exit 0
fi
# shellcheck source=tests/debian-source.sh
. "$here/../debian-source.sh"
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
  exit 0
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
needed=()
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
# The gRPC of that time sends the path of a socket as the authority. That is malformed, and servers in
# Rust refuse it.
for service in runtime image; do
  file=$source/pkg/kubelet/cri/remote/remote_$service.go
  logged sed -i 's/grpc\.WithInsecure(),/& grpc.WithAuthority("localhost"),/' "$file"
  grep -q 'grpc\.WithAuthority("localhost")' "$file" || die "$file is not as expected"
done
mkdir "$source/cmd/kubelet-gc"
cp "$here/main.go" "$source/cmd/kubelet-gc/"

say "building the kubelet's garbage collectors on $(nproc) cores (minutes; follow $log)"
started=$SECONDS
status=0
# A process group of its own: a signal to this script is then handled at once, and ends all the
# compilers. An environment of its own: Go obeys many variables.
set -m
env -i PATH="/usr/lib/go/bin:$PATH" HOME="${HOME:-$work}" LANG=C.UTF-8 TMPDIR="${TMPDIR:-/tmp}" CGO_ENABLED=0 \
  GOPROXY=off GOTOOLCHAIN=local GO111MODULE=off GOPATH="$work/go" GOCACHE="$work/go-cache" \
  go build -ldflags '-s -w' -o kubelet-gc k8s.io/kubernetes/cmd/kubelet-gc >>"$log" 2>&1 </dev/null 9>&- &
build=$!
set +m
wait "$build" || status=$?
build=
if ((status)); then
  tail -n 30 "$log" >&2
  die "the build failed (whole log: $log)"
fi
mkdir stage
mv kubelet-gc stage/
rm -rf "${root:?}/$key"
mv -T stage "$root/$key"
# What was built of an older driver.
find "$root" -mindepth 1 -maxdepth 1 -type d ! -name "$key" ! -name '.*' -exec rm -rf {} +
say "built in $((SECONDS - started)) s, kept in $root/$key"
printf '%s\n' "$program"
