#!/usr/bin/env bash
# Shows the collector at work (`make run`):
#
#   tests/control-plane/run-sample.sh [--foreground] [--stay] [-- KUBE_GC_FLAG...]
#
# Starts a control plane on loopback, applies deploy/sample/shop.yaml, runs the
# collector against it, deletes the deployment `web`, and shows what follows.
# Exits with 0 only if everything that `web` owned is gone and everything else is kept.
#
#   --foreground   delete `web` in the foreground: it is deleted last, not first
#   --stay         at the end, wait for the enter key or Ctrl-C before everything is stopped
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=tests/control-plane
sample=deploy/sample/shop.yaml
namespace=shop
root=web

# The objects that must be deleted with the root, and those that must stay.
dependents=(
  deployment.apps/web replicaset.apps/web-6f7d8c replicaset.apps/web-5b4c9a
  pod/web-6f7d8c-h2kxv pod/web-6f7d8c-q9zpt configmap/web-6f7d8c-h2kxv-state configmap/web-routes
)
kept=(deployment.apps/api configmap/prices configmap/opening-hours)

policy=background
stay=
while (($#)); do
  case $1 in
    --foreground) policy=foreground ;;
    --stay) stay=1 ;;
    --)
      shift
      break
      ;;
    *)
      printf 'usage: %s [--foreground] [--stay] [-- KUBE_GC_FLAG...]\n' "$0" >&2
      exit 2
      ;;
  esac
  shift
done
flags=("$@")

bold='' dim='' plain=''
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
fi
step() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
die() {
  printf '\nmake run: %s\n' "$*" >&2
  exit 1
}

work=$(mktemp -d)
collector=
plane=
tear_down() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  if [[ -n $collector ]]; then
    kill -TERM "$collector" 2>/dev/null || :
    wait "$collector" 2>/dev/null || :
  fi
  if [[ -n $plane ]]; then
    # The control plane runs as long as its input is open.
    exec {plane_input}>&- || :
    wait "$plane" 2>/dev/null || :
  fi
  rm -rf "$work"
  exit "$status"
}
trap tear_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Waits for a condition, at most this many seconds.
await() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    if [[ -n $collector ]] && ! kill -0 "$collector" 2>/dev/null; then
      tail -n 20 "$work/log" >&2
      die "the collector has ended"
    fi
    sleep 0.1
  done
}

# ---------------------------------------------------------------------------
step "Building the collector"

# cargo reports the path, which may not be the usual one.
read -ra build <<<"--locked --bin kube-gc ${KUBE_GC_BUILD_FLAGS:-}"
cargo build "${build[@]}"
kube_gc=$(cargo build "${build[@]}" --quiet --message-format json |
  sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[[ -x $kube_gc ]] || die "cargo did not report the path of the binary"

# ---------------------------------------------------------------------------
step "Starting a control plane on loopback"

# Through a pipe and not as a coprocess: the end of its input stops it, even if
# this script is killed.
mkfifo "$work/input" "$work/output"
"$here/serve.sh" <"$work/input" >"$work/output" &
plane=$!
exec {plane_input}>"$work/input" {plane_output}<"$work/output"
IFS= read -r -u "$plane_output" report || die "the control plane did not start"
field() { sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p' <<<"$report"; }
kubeconfig=$(field kubeconfig)
bin=$(field bin)
kubectl=$bin/kubectl
[[ -x $kubectl ]] || kubectl=$(type -P kubectl) || die "kubectl is missing: put it on PATH"
k() { "$kubectl" --kubeconfig "$kubeconfig" --namespace "$namespace" "$@"; }
printf 'Kubernetes %s at %s; without controllers, so nothing collects garbage\n' "$(field version)" "$(field url)"

# ---------------------------------------------------------------------------
step "Applying $sample"

# One document after the other, because a reference needs the uid of its owner.
awk -v work="$work" 'BEGIN { n = 100 } /^---$/ { n++; next } { print > (work "/" n ".yaml") }' "$sample"
for document in "$work"/*.yaml; do
  while read -r kind name; do
    uid=$(k get "$kind" "$name" --output 'jsonpath={.metadata.uid}')
    sed -i "s/<uid of $kind $name>/$uid/" "$document"
  done < <(sed -n 's/.*<uid of \([a-z]*\) \([a-z0-9-]*\)>.*/\1 \2/p' "$document" | sort -u)
  k create --validate=false --filename "$document"
done

# Prints the objects of the namespace as a tree of owners and dependents.
show() {
  local -A name_of=() owners_of=()
  local uids=() uid name owners
  while read -r uid name owners; do
    uids+=("$uid")
    name_of[$uid]=$name
    owners_of[$uid]=$owners
  done < <(k get deployments,replicasets,pods,configmaps --sort-by=.metadata.name --output go-template='
{{- range .items}}{{.metadata.uid}} {{.kind}}/{{.metadata.name}}
{{- if .metadata.deletionTimestamp}}_(terminating){{end}}
{{- range .metadata.ownerReferences}} {{.uid}}{{end}}
{{end}}')
  branch() {
    local owner=$1 indent=$2 uid children=() i
    for uid in "${uids[@]}"; do
      [[ " ${owners_of[$uid]} " == *" $owner "* ]] && children+=("$uid")
    done
    for i in "${!children[@]}"; do
      local arm='├─ ' next='│  '
      ((i < ${#children[@]} - 1)) || arm='└─ ' next='   '
      printf '%s%s%s\n' "$indent" "$arm" "${name_of[${children[i]}]//_/ }"
      branch "${children[i]}" "$indent$next"
    done
  }
  for uid in "${uids[@]}"; do
    local owner known=
    for owner in ${owners_of[$uid]}; do
      [[ -z ${name_of[$owner]:-} ]] || known=1
    done
    [[ -z $known ]] || continue
    printf '  %s%s\n' "${name_of[$uid]//_/ }" "${owners_of[$uid]:+  (its owners are gone)}"
    branch "$uid" '  '
  done
}

step "Before"
show

# ---------------------------------------------------------------------------
step "Running the collector"

command=("$kube_gc" run --kubeconfig "$kubeconfig" --listen 127.0.0.1:0 --debug-listen 127.0.0.1:0 "${flags[@]}")
printf '%s$ kube-gc %s%s\n' "$dim" "${command[*]:1}" "$plain"
# Without our end of the pipe, which would keep the control plane running.
"${command[@]}" 2>"$work/log" </dev/null {plane_input}>&- &
collector=$!
address() { sed -n 's/.*listening.*listener="\?'"$1"'"\?.*address="\?\([0-9.]*:[0-9]*\).*/\1/p' "$work/log"; }
listening() { [[ -n $(address health) && -n $(address debug) ]]; }
page() { curl --silent --fail --noproxy '*' --max-time 10 "http://$1"; }
ready() { page "$(address health)/readyz" >/dev/null; }
idle() { page "$(address debug)/debug/idle" >/dev/null; }
await 20 listening || die "the collector does not report its addresses"
await 60 ready || {
  curl --silent --noproxy '*' "http://$(address health)/readyz?verbose" >&2 || :
  die "the collector is not ready"
}
printf '%s$ curl http://%s/readyz?verbose%s\n' "$dim" "$(address health)" "$plain"
page "$(address health)/readyz?verbose"
await 30 idle || die "the collector is not idle, although nothing was deleted"

# ---------------------------------------------------------------------------
step "Deleting the deployment $root ($policy)"

uid=$(k get deployment "$root" --output 'jsonpath={.metadata.uid}')
printf '%s$ curl http://%s/debug/graph?uid=%s%s\n' "$dim" "$(address debug)" "$uid" "$plain"
page "$(address debug)/debug/graph?uid=$uid" || die "the object is not in the graph of the collector"
before=$(wc -l <"$work/log")
printf '\n%s$ kubectl delete deployment %s --cascade=%s%s\n' "$dim" "$root" "$policy" "$plain"
k delete deployment "$root" --cascade="$policy" --wait=false

left() { k get "$@" --ignore-not-found --output name; }
all_gone() { [[ -z $(left "${dependents[@]}") ]]; }
await 30 all_gone || gone_failed=1
await 30 idle || idle_failed=1

step "What the collector decided"
tail -n "+$((before + 1))" "$work/log" >"$work/since"
if ! grep -E '(^|[ {,"])action' "$work/since"; then
  cat "$work/since"
fi

step "After"
show

# ---------------------------------------------------------------------------
step "Verdict"

failures=0
fail() {
  printf 'wrong: %s\n' "$*"
  failures=$((failures + 1))
}
[[ -z ${gone_failed:-} ]] || fail "still there after 30 s: $(left "${dependents[@]}" | tr '\n' ' ')"
[[ -z ${idle_failed:-} ]] || fail "the collector is not idle: $(page "$(address debug)/debug/queues" || :)"
for object in "${kept[@]}"; do
  [[ -n $(left "$object") ]] || fail "$object is gone, and should have been kept"
done
owners=$(k get configmap prices --ignore-not-found --output 'jsonpath={.metadata.ownerReferences[*].name}')
[[ $owners == api ]] || fail "configmap/prices should be owned only by api, but is owned by: $owners"

if ((failures == 0)); then
  printf 'all %d objects of the tree are gone, all %d others are kept, and prices lost one of its two owners\n' \
    "${#dependents[@]}" "${#kept[@]}"
fi

if [[ -n $stay ]]; then
  printf '\nThe control plane and the collector are still running:\n'
  printf '  kubectl --kubeconfig %s get all --namespace %s\n' "$kubeconfig" "$namespace"
  printf '  curl http://%s/   curl http://%s/\n' "$(address health)" "$(address debug)"
  read -r -p 'Press enter or Ctrl-C to stop them. ' _ || :
fi

kill -TERM "$collector"
status=0
wait "$collector" || status=$?
collector=
((status == 0)) || {
  tail -n 5 "$work/log"
  fail "the collector ended with $status on SIGTERM"
}

((failures == 0)) || die "the result is wrong, see above"
