#!/usr/bin/env bash
# Makes sure that a definition of the container runtime interface exists and prints, as the only
# line on standard output, the directory that holds it, as v1/api.proto and v1alpha2/api.proto.
#
# Looked at in this order:
#   1. $KUBE_GC_CRI_DEFINITION, for example a checkout's k8s.io/cri-api/pkg/apis/runtime;
#   2. the cache, ${KUBE_GC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/kube-gc}/cri-definition/<version>;
#   3. Debian's source package `containerd`, which has the definition in it. It is kept in that cache.
#
# Progress goes to standard error; when there is nothing to do, nothing is said.
set -euo pipefail

say() { printf 'cri-definition: %s\n' "$*" >&2; }
die() {
  say "$*"
  say "alternatively, set KUBE_GC_CRI_DEFINITION to a directory with v1/api.proto"
  exit 1
}

if [[ -n ${KUBE_GC_CRI_DEFINITION:-} ]]; then
  [[ -f $KUBE_GC_CRI_DEFINITION/v1/api.proto ]] || die "KUBE_GC_CRI_DEFINITION=$KUBE_GC_CRI_DEFINITION has no v1/api.proto"
  (cd "$KUBE_GC_CRI_DEFINITION" && pwd)
  exit 0
fi

cache_home=${KUBE_GC_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither KUBE_GC_CACHE nor HOME is set}/.cache}/kube-gc}
root=$cache_home/cri-definition

from_cache() {
  local found
  [[ -d $root ]] || return 1
  found=$(find "$root" -mindepth 1 -maxdepth 1 -type d -name '[0-9]*' | sort -V | tail -n 1)
  [[ -n $found && -f $found/v1/api.proto && -f $found/v1alpha2/api.proto ]] || return 1
  printf '%s\n' "$found"
}
from_cache && exit 0

for tool in tar xz; do
  type -P "$tool" >/dev/null || die "$tool is needed to fetch the definition"
done
# shellcheck source=tests/debian-source.sh
. "$(dirname "${BASH_SOURCE[0]}")/../debian-source.sh"
wait_for_turn "$root"
# Another caller may have fetched it.
from_cache && exit 0

begin_build "$root"
cd "$work"
open_archive containerd
fetch_source containerd

archives=(containerd_*.orig.tar.xz)
version=${archives[0]#containerd_}
version=${version%.orig.tar.xz}
mkdir definition
for api in v1 v1alpha2; do
  mkdir "definition/$api"
  logged tar -xf "${archives[0]}" --wildcards --strip-components=7 -C definition \
    "*/vendor/k8s.io/cri-api/pkg/apis/runtime/$api/api.proto"
done
[[ -f definition/v1/api.proto && -f definition/v1alpha2/api.proto ]] \
  || die "the source package of containerd $version has no definition of the interface"
rm -rf "${root:?}/$version"
mv -T definition "$root/$version"
say "kept in $root/$version"
printf '%s\n' "$root/$version"
