#!/usr/bin/env bash
# Runs all tests (`make test`):
#
#   tests/all.sh
#
# The scenarios take most of the time and often wait, so the other suites run beside them. With
# less priority, their API servers would not answer in time on a small machine. Their output comes
# in one piece when they have ended. The first suite that fails ends everything.
#
# KUBE_GC_OPTIMIZED_PROFILE=soak runs the simulation, and most collectors, optimized. They
# take a fraction of the processor time then, but need a build of their own. Whoever runs
# `make mutations` has that build.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo=${CARGO:-cargo}

# The name of each suite but `scenarios` and `simulation` fits one of these patterns.
others=(--lib --bins --examples --test '[!s]*' --test 'sc[!e]*')
profile=${KUBE_GC_OPTIMIZED_PROFILE:-test}

log=$(mktemp)
declare -A pid=()
end() {
  local name
  for name in "${!pid[@]}"; do
    # Each has its own process group, so this ends its children too.
    kill -- "-${pid[$name]}" 2>/dev/null || :
  done
  rm -f "$log"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$cargo" test --locked --no-run "${others[@]}" --test scenarios
if [[ $profile != test ]]; then
  # cargo reports the path. It builds the program with the tests that run it.
  binary=$("$cargo" test --locked --no-run --profile "$profile" --test simulation --message-format json |
    sed -n 's/.*"executable":"\([^"]*\/kube-gc\)".*/\1/p')
  [[ -x $binary ]] || {
    printf 'all.sh: cargo did not report the path of the optimized binary\n' >&2
    exit 1
  }
  export KUBE_GC_BINARY=$binary
fi
# Job control gives each its own process group.
set -m
"$cargo" test --locked --test scenarios </dev/null &
pid[scenarios]=$!
{
  "$cargo" test --locked "${others[@]}" && "$cargo" test --locked --doc &&
    "$cargo" test --locked --profile "$profile" --test simulation
} </dev/null >"$log" 2>&1 &
pid[others]=$!
set +m

while ((${#pid[@]})); do
  status=0
  wait -n -p ended "${pid[@]}" || status=$?
  for name in "${!pid[@]}"; do
    [[ ${pid[$name]} == "$ended" ]] || continue
    unset "pid[$name]"
    [[ $name == scenarios ]] || cat "$log"
  done
  if ((status)); then
    # What the other suites have printed so far may belong to the failure.
    [[ -z ${pid[others]:-} ]] || cat "$log"
    exit "$status"
  fi
done
