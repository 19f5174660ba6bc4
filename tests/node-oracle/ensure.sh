#!/usr/bin/env bash
# Makes sure that the kubelet's own garbage collectors exist as a program, built from main.go, and
# prints its path as the only line on standard output. See ../kubernetes-program.sh.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/kubernetes-program.sh
. "$here/../kubernetes-program.sh"

# The gRPC of that time sends the path of a socket as the authority. That is malformed, and servers in
# Rust refuse it.
change_source() {
  local service file
  for service in runtime image; do
    file=pkg/kubelet/cri/remote/remote_$service.go
    logged sed -i 's/grpc\.WithInsecure(),/& grpc.WithAuthority("localhost"),/' "$file"
    grep -q 'grpc\.WithAuthority("localhost")' "$file" || die "$file is not as expected"
  done
}

ensure_program kubelet-gc "$here" "$here/ensure.sh"
