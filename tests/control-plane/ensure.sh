#!/usr/bin/env bash
# Finds or builds the binaries of a real control plane, and prints their directory
# as the only line on standard output:
#
#   tests/control-plane/ensure.sh [COMPONENT...]
#
# The directory contains `etcd` and `kube-apiserver` (perhaps as symbolic links),
# and each given COMPONENT, such as `kube-controller-manager`.
#
# It looks in this order:
#   1. $KUBEBUILDER_ASSETS, the envtest convention;
#   2. $PATH;
#   3. the cache, ${KUBE_GC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/kube-gc}/control-plane/<version>;
#   4. a build from Debian's source package `kubernetes`, stored in that cache.
#
# Progress goes to standard error. If there is nothing to do, it prints nothing there.
set -euo pipefail

wanted=(etcd kube-apiserver "$@")
for component in "$@"; do
  if [[ ! $component =~ ^kube-[a-z-]+$ ]]; then
    printf 'usage: %s [kube-COMPONENT...]\n' "$0" >&2
    exit 2
  fi
done

say() { printf 'control-plane: %s\n' "$*" >&2; }
die() {
  say "$*"
  say "alternatively, set KUBEBUILDER_ASSETS to a directory with ${wanted[*]}"
  say "(for example: setup-envtest use 1.33.x --print path), or put them on PATH"
  exit 1
}

# Whether a directory contains all wanted binaries.
complete() {
  local binary
  for binary in "${wanted[@]}"; do
    [[ -f $1/$binary && -x $1/$binary ]] || return 1
  done
}

cache_home=${KUBE_GC_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither KUBE_GC_CACHE nor HOME is set}/.cache}/kube-gc}
root=$cache_home/control-plane

from_assets() {
  [[ -n ${KUBEBUILDER_ASSETS:-} ]] || return 1
  if ! complete "$KUBEBUILDER_ASSETS"; then
    say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS does not contain all of: ${wanted[*]}; looking elsewhere"
    return 1
  fi
  (cd "$KUBEBUILDER_ASSETS" && pwd)
}

# The binaries on PATH need not be in one directory; links bring them together.
from_path() {
  local binary found links
  for binary in "${wanted[@]}"; do
    type -P "$binary" >/dev/null || return 1
  done
  found=$(dirname "$(type -P kube-apiserver)")
  if complete "$found"; then
    printf '%s\n' "$found"
    return
  fi
  links=$root/path
  mkdir -p "$links"
  for binary in "${wanted[@]}"; do
    # Created under another name and renamed, so that the link is never missing.
    ln -s "$(type -P "$binary")" "$links/.$binary.$$"
    mv -fT "$links/.$binary.$$" "$links/$binary"
  done
  printf '%s\n' "$links"
}

from_cache() {
  local versions=() version
  [[ -d $root ]] || return 1
  mapfile -t versions < <(find "$root" -mindepth 1 -maxdepth 1 -type d -name '[0-9]*' -printf '%f\n' | sort -Vr)
  for version in "${versions[@]}"; do
    if complete "$root/$version"; then
      printf '%s\n' "$root/$version"
      return
    fi
  done
  return 1
}

from_assets || from_path || from_cache || build_needed=1
[[ -n ${build_needed:-} ]] || exit 0

# ---------------------------------------------------------------------------
# The build.

type -P apt-get >/dev/null || die "${wanted[*]} not found, and they can be built only on Debian"
# shellcheck source=tests/debian-source.sh
. "$(dirname "${BASH_SOURCE[0]}")/../debian-source.sh"
wait_for_turn "$root"
# It may have been built while we waited.
from_cache && exit 0

begin_build "$root"
# Debian's own Go is used even if there is another one on PATH: the source is as old as the
# distribution, and newer compilers do not build it.
install_missing <<'TOOLS'
/usr/lib/go/bin/go golang-go
dpkg-source dpkg-dev
make make
patch patch
xz xz-utils
rsync rsync
jq jq
openssl openssl
curl curl
TOOLS

cd "$work"
open_archive kubernetes-client etcd-server
fetch_source kubernetes
# Debian's etcd and kubectl are unpacked, not installed: installing
# etcd-server would also start it, on the default port.
packages=(etcd-server golang-github-modern-go-reflect2-dev)
type -P kubectl >/dev/null || packages+=(kubernetes-client)
fetch_packages "${packages[@]}"

logged dpkg-source -x kubernetes_*.dsc src
for package in *.deb; do
  logged dpkg-deb -x "$package" "${package%%_*}"
done

# "1.20.5+really1.20.2-1.1+deb12u1" is Kubernetes 1.20.2.
version=$(cd src && dpkg-parsechangelog --show-field Version)
version=${version#*:}
version=${version%-*}
version=${version##*+really}
version=${version%%[+~]*}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "cannot read the Kubernetes version of the source package: $version"

# reflect2 before 1.0.2 makes assumptions about Go's maps that Go 1.18 broke:
# the server would crash on the first custom resource.
reflect2=vendor/github.com/modern-go/reflect2
if grep -Eq '^# github.com/modern-go/reflect2 v1\.0\.[01]( |$)' src/vendor/modules.txt; then
  rm -rf "src/$reflect2"
  cp -r golang-github-modern-go-reflect2-dev/usr/share/gocode/src/github.com/modern-go/reflect2 "src/$reflect2"
fi

# The source package is no git tree. Without this, the version of the server would
# be v0.0.0, and clients that check it would be misled.
IFS=. read -r major minor _ <<<"$version"
cat >version.sh <<VERSION
KUBE_GIT_COMMIT=debian
KUBE_GIT_TREE_STATE=archive
KUBE_GIT_VERSION=v$version
KUBE_GIT_MAJOR=$major
KUBE_GIT_MINOR=$minor
VERSION

targets=()
for binary in "${wanted[@]}"; do
  [[ $binary == etcd ]] || targets+=("cmd/$binary")
done
say "building ${targets[*]#cmd/} $version on $(nproc) cores (minutes; follow $log)"
started=$SECONDS
# A clean environment: Go and Kubernetes' makefiles obey many variables, and cargo
# sets one of them, OUT_DIR, for the tests and benchmarks that may call this.
compile env -C src -i PATH="/usr/lib/go/bin:$PATH" HOME="${HOME:-$work}" LANG=C.UTF-8 \
  TMPDIR="${TMPDIR:-/tmp}" CGO_ENABLED=0 GOPROXY=off GOTOOLCHAIN=local \
  GOCACHE="$work/go-cache" GOPATH="$work/go" KUBE_GIT_VERSION_FILE="$work/version.sh" \
  make WHAT="${targets[*]}"

mkdir stage
cp etcd-server/usr/bin/etcd stage/
[[ ! -d kubernetes-client ]] || cp kubernetes-client/usr/bin/kubectl stage/
for target in "${targets[@]}"; do
  cp -L "src/_output/bin/${target#cmd/}" stage/
done
complete stage || die "the build did not produce ${wanted[*]} (log: $log)"

# A directory of this version may exist that lacks a component wanted now, and has
# another one.
for binary in "$root/$version"/*; do
  [[ ! -f $binary || -e stage/${binary##*/} ]] || cp "$binary" stage/
done
rm -rf "${root:?}/$version"
mv -T stage "$root/$version"
say "built in $((SECONDS - started)) s, stored in $root/$version"
printf '%s\n' "$root/$version"
