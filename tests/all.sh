#!/usr/bin/env bash
# Runs the tests:
#
#   tests/all.sh             what the gate runs (`make test`)
#   tests/all.sh --nightly   what it leaves out (part of `make nightly`)
#
# The scenarios take most of the time and often wait, so the other suites run beside them. With
# less priority, their API servers would not answer in time on a small machine. Their output comes
# in one piece when they have ended. The first suite that fails ends everything.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo=${CARGO:-cargo}

# What compares two servers, and what needs a browser.
readonly nightly=(differential page)

others=(--lib --bins --examples)
for file in {,crates/*/}tests/{*.rs,*/main.rs}; do
  [[ -f $file ]] || continue
  name=${file#*tests/}
  name=${name%/main.rs}
  name=${name%.rs}
  # These two have steps of their own.
  [[ " scenarios simulation ${nightly[*]} " == *" $name "* ]] || others+=(--test "$name")
done
scenarios=()
run_others() {
  "$cargo" test --locked "${others[@]}" && "$cargo" test --locked --doc &&
    "$cargo" test --locked --test simulation
}
case ${1:-} in
"") ;;
--nightly)
  others=("${nightly[@]/#/--test=}")
  scenarios=(--nightly)
  # Their figures mean nothing here. A benchmark that does not start would not be noticed otherwise.
  program=${CARGO_TARGET_DIR:-target}/debug/kube-gc
  run_benches() {
    "$cargo" test --locked --bench end_to_end -- --quick --rows background --no-peer --kube-gc "$program" &&
      "$cargo" test --locked --bench insight -- --quick --kube-gc "$program" &&
      "$cargo" test --locked --bench scale -- --quick --kube-gc "$program"
  }
  run_others() {
    "$cargo" test --locked "${others[@]}" &&
      run_benches &&
      KUBE_GC_PLAN_GRAPHS=2000 "$cargo" test --locked --test scenarios -- embedded::insight::proof &&
      "$cargo" test --locked --profile soak --test simulation -- --fixed 200 &&
      "$cargo" test --locked --profile soak --test simulation -- --mutations &&
      "$cargo" test --locked --test model -- --mutations
  }
  ;;
*)
  sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
  exit 2
  ;;
esac

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
# Job control gives each its own process group.
set -m
"$cargo" test --locked --test scenarios -- "${scenarios[@]}" </dev/null &
pid[scenarios]=$!
run_others </dev/null >"$log" 2>&1 &
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
