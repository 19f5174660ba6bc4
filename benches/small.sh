#!/usr/bin/env bash
# Measures small collectors (`make bench-small`):
#
#   benches/small.sh [--starts 5] [--collectors 8] [--rest SECONDS] [--frozen SECONDS]
#
# All collectors have the settings of deploy/overlays/small. First, one is started several times on
# an empty API server: how long it takes until it is ready, and its memory. Then many are started on
# that API server at once: how long it takes until all are ready, their memory together, and their
# CPU at rest. Last, another API server, which has a collector of its own, is frozen, and the
# cascades of the first one before and meanwhile are compared. KUBE_GC_BINARY is the path of an
# existing optimized binary; by default, it is what deploy/build-static builds.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

starts=5 collectors=8 rest=30 frozen=60
if [[ ${1:-} == --help ]]; then
  sed -n 's/^#   //p' "${BASH_SOURCE[0]}"
  exit
fi
while (($#)); do
  [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || set -- unusable
  case $1 in
  --starts) starts=$2 ;;
  --collectors) collectors=$2 ;;
  --rest) rest=$2 ;;
  --frozen) frozen=$2 ;;
  *)
    sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
  esac
  shift 2
done

fail() {
  printf 'bench-small: %s\n' "$*" >&2
  exit 1
}

work=$(mktemp -d)
planes=() pids=() stopped=
tear_down() {
  trap '' INT TERM HUP
  [[ -z $stopped ]] || kill -CONT "$stopped" 2>/dev/null || :
  ((!${#pids[@]})) || kill "${pids[@]}" 2>/dev/null || :
  # A control plane ends at the end of its input.
  for input in "${planes[@]}"; do exec {input}>&-; done
  wait 2>/dev/null || :
  rm -rf "$work"
}
trap tear_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

binary=${KUBE_GC_BINARY:-$(deploy/build-static)}
[[ -x $binary ]] || fail "$binary is no program"

# Starts control planes at the same time; the report of each is in $work/NAME.json.
control_planes() {
  local name input output report
  local -A outputs=()
  for name in "$@"; do
    mkfifo "$work/$name.input" "$work/$name.output"
    tests/control-plane/serve.sh <"$work/$name.input" >"$work/$name.output" &
    exec {input}>"$work/$name.input" {output}<"$work/$name.output"
    planes+=("$input")
    outputs[$name]=$output
  done
  for name in "$@"; do
    IFS= read -r -u "${outputs[$name]}" report || fail 'a control plane did not start'
    printf '%s\n' "$report" >"$work/$name.json"
  done
}
field() { sed -n 's/.*"'"$2"'": *"\{0,1\}\([^",}]*\).*/\1/p' "$work/$1.json"; }

# Starts a collector of a control plane without waiting for it.
collector() {
  # Without our ends of the pipes, which would keep the control planes running.
  env KUBE_GC__GRAPH__PARTITIONS=1 KUBE_GC__WORKERS__DELETE=10 KUBE_GC__WORKERS__ORPHAN=1 KUBE_GC__WORKERS__RELEASE=8 \
    "$binary" run --kubeconfig "$(field "$1" kubeconfig)" --listen 127.0.0.1:0 --debug-listen 127.0.0.1:0 \
    --ready-file "$work/$2.ready" --exit-with-parent 2>"$work/$2.log" </dev/null &
  pids+=($!)
}
ready() {
  local name
  for name in "$@"; do [[ -e $work/$name.ready ]] || return 1; done
}
await() {
  local deadline=$((SECONDS + 60))
  until "$@"; do
    ((SECONDS < deadline)) || fail "after 60 s: $*"
    sleep 0.01
  done
}
milliseconds() { printf '%s\n' "$((${EPOCHREALTIME/./} / 1000))"; }
# The milliseconds from a moment until the last of these collectors was ready, by its ready file.
ready_after() {
  local began=$1 at
  shift
  at=$(stat --format %.3Y "${@/%/.ready}" | sort -n | tail -n 1)
  printf '%s\n' "$((${at/./} - began))"
}
cpu() { cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }
# The memory of processes together, in MiB. Pss divides what they share.
memory() {
  local field=$1 pid
  shift
  for pid in "$@"; do sed -n "s/^$field: *\\([0-9]*\\) kB/\\1/p" "/proc/$pid/smaps_rollup"; done |
    awk '{ sum += $1 } END { printf "%.1f\n", sum / 1024 }'
}
# The median and the maximum of the numbers on standard input.
summary() { sort -n | awk '{ all[NR] = $1 } END { printf "%d, at most %d (%d %s)\n", all[int((NR + 1) / 2)], all[NR], NR, what }' what="$1"; }
row() { printf '| %s | %s | %s |\n' "$@"; }
# A collector that has just started is not at rest yet.
settle=$((rest > 5 ? 5 : rest - 1))

control_planes many frozen
collector frozen of-frozen
await ready of-frozen

row '' goal measured
row --- --- ---
times=()
for ((i = 1; i <= starts; i++)); do
  began=$(milliseconds)
  collector many "alone-$i"
  await ready "alone-$i"
  times+=("$(ready_after "$began" "$work/alone-$i")")
  if ((i == starts)); then
    sleep "$settle"
    resident=$(memory Rss "${pids[-1]}")
  fi
  kill "${pids[-1]}"
  wait "${pids[-1]}"
  unset 'pids[-1]'
done
row 'one collector, start until ready: median (ms)' '≤ 150' "$(printf '%s\n' "${times[@]}" | summary starts)"
row 'one collector at rest: resident memory (MiB)' '≤ 12' "$resident"

names=()
began=$(milliseconds)
for ((i = 1; i <= collectors; i++)); do
  collector many "$i"
  names+=("$i")
done
await ready "${names[@]}"
row "$collectors collectors, start until all are ready (ms)" '≤ 5000' "$(ready_after "$began" "${names[@]/#/$work/}")"

# The first one collects the other API server.
small=("${pids[@]:1}")
sleep "$settle"
before=()
for pid in "${small[@]}"; do before+=("$(cpu "$pid")"); done
sleep "$rest"
most=$(for i in "${!small[@]}"; do
  awk -v used="$(($(cpu "${small[i]}") - before[i]))" -v rest="$rest" 'BEGIN { printf "%.3f\n", used / rest / 1e7 }'
done | sort -n | tail -n 1)
row "$collectors collectors at rest, $rest s: CPU of the busiest one (% of a core)" '≤ 0.5' "$most"
row "$collectors collectors at rest: Pss together (MiB)" '≤ 100' "$(memory Pss "${small[@]}")"

token=$(sed -n 's/^ *token: *//p' "$(field many kubeconfig)")
api() {
  curl --silent --noproxy '*' --cacert "$(field many dir)/ca.crt" --header "Authorization: Bearer $token" \
    --header 'Content-Type: application/json' --max-time 10 "$(field many url)/api/v1/namespaces/default/configmaps$1" "${@:2}"
}
# The milliseconds from the answer to the deletion of an owner until its dependent is gone.
cascade() {
  local uid began
  uid=$(api '' --data '{"metadata":{"name":"owner"}}' | sed -n 's/.*"uid": *"\([^"]*\)".*/\1/p' | head -n 1)
  [[ -n $uid ]] || fail 'cannot create an owner'
  api '' --output /dev/null --data '{"metadata":{"name":"dependent","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"'"$uid"'"}]}}'
  # The time of the API server for this request is not that of the collectors.
  api /owner --output /dev/null --request DELETE
  began=$(milliseconds)
  until [[ $(api /dependent --output /dev/null --write-out '%{http_code}') == 404 ]]; do
    (($(milliseconds) - began < 30000)) || fail 'a dependent is still there after 30 s'
  done
  printf '%s\n' "$(($(milliseconds) - began))"
}
cascades() {
  local end=$((SECONDS + $1))
  while ((SECONDS < end)); do cascade; done
}

# A failure inside of "$(…)" as an argument would be lost, and with it the slowest cascade.
quiet=$((frozen < 3 ? 1 : frozen / 3))
alone=$(cascades "$quiet")
row "cascade of one object, $quiet s: median (ms)" – "$(summary cascades <<<"$alone")"
stopped=$(field frozen apiserver_pid)
kill -STOP "$stopped"
meanwhile=$(cascades "$frozen")
row "the same while another API server is frozen, $frozen s (ms)" '≤ 1000 more' "$(summary cascades <<<"$meanwhile")"
kill -CONT "$stopped"
stopped=
