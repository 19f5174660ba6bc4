#!/usr/bin/env bash
# Makes sure that the bare client exists as a program, built from main.go, and prints its path as the
# only line on standard output. See ../../../tests/kubernetes-program.sh.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/kubernetes-program.sh
. "$here/../../../tests/kubernetes-program.sh"

ensure_program bare-client "$here"
