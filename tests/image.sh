#!/usr/bin/env bash
# Builds the static binary and its image, checks the content of the image, and runs tests of the
# deployment and of the deletion policies with the binary from the image:
#
#   tests/image.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  printf 'image: %s\n' "$*" >&2
  exit 1
}

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
# Its own store, which works on any file system and is removed with the directory.
export BUILDAH_FLAGS="--root $directory/root --runroot $directory/run --storage-driver vfs"
deploy/build-image kube-gc:test "oci:$directory/image:test"

# An OCI layout: index.json names the manifest, which names the configuration and layers.
blob() { printf '%s/image/blobs/%s' "$directory" "${1/://}"; }
manifest=$(blob "$(jq -r '.manifests[0].digest' "$directory/image/index.json")")
config=$(blob "$(jq -r .config.digest "$manifest")")
expect() {
  local found
  found=$(jq -c ".config.$1" "$config")
  [[ $found == "$2" ]] || fail "$1 is $found, and should be $2"
}
expect User '"65532:65532"'
expect Entrypoint '["/kube-gc"]'
expect Cmd '["run"]'
expect ExposedPorts '{"8080/tcp":{}}'

mkdir "$directory/rootfs"
while read -r layer; do
  tar --extract --gzip --file "$(blob "$layer")" --directory "$directory/rootfs"
done < <(jq -r '.layers[].digest' "$manifest")
files=$(cd "$directory/rootfs" && find . ! -type d)
[[ $files == ./kube-gc ]] || fail "the image contains $files, and should contain only ./kube-gc"

if "$directory/rootfs/kube-gc" demo --help >/dev/null 2>&1; then
  fail 'the binary contains the demo, and with it an API server'
fi
printf 'image: contains only %s, %s bytes\n' "$("$directory/rootfs/kube-gc" --version)" \
  "$(stat --format %s "$directory/rootfs/kube-gc")"

# The role of the plain overlay, the probes, and the policy scenarios. `make test` runs all scenarios
# with a binary that is not static.
tests=(
  deployed::deployment::rights::the_plain deployed::deployment::manifests::the_probes
  real::conformance::policies
)
KUBE_GC_BINARY=$directory/rootfs/kube-gc "${CARGO:-cargo}" test --locked --test scenarios -- "${tests[@]}"
