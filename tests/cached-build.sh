#!/usr/bin/env bash
# Sourced by scripts that keep what they build or fetch in a directory of the cache. The caller
# defines say and die.
set -euo pipefail

# Waits until no other process builds in a directory, which may not exist yet.
wait_for_turn() {
  local root=$1
  type -P flock >/dev/null || die "flock (package util-linux) is needed"
  mkdir -p "$root"
  exec 9>"$root/.lock"
  if ! flock -n 9; then
    say "waiting for another process that is building"
    flock 9
  fi
}

# Makes the directory $work and the log $log in the directory of the cache. $work is in the same file
# system, so that a rename moves the result into place, and is removed when the script ends.
begin_build() {
  local root=$1
  # Remains of killed builds are removed, except for files that their processes may still be writing.
  rm -rf "$root"/.build.* 2>/dev/null || :
  work=$(mktemp -d "$root/.build.XXXXXX")
  log=$root/build.log
  build=
  trap end_build EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  : >"$log"
}

end_build() {
  if [[ -n $build ]]; then
    kill -KILL -- "-$build" 2>/dev/null || :
    { wait "$build" || :; } 2>/dev/null
  fi
  rm -rf "$work"
}

# Runs a command quietly; shows the end of its output if it fails.
logged() {
  printf '+ %s\n' "$*" >>"$log"
  if ! "$@" >>"$log" 2>&1 </dev/null 9>&-; then
    tail -n 30 "$log" >&2
    die "failed: $* (whole log: $log)"
  fi
}

# Runs a long build quietly. It is in the background and has its own process group, so that a signal to
# this script is handled at once and ends all compilers.
compile() {
  local status=0
  set -m
  "$@" >>"$log" 2>&1 </dev/null 9>&- &
  build=$!
  set +m
  wait "$build" || status=$?
  build=
  if ((status)); then
    tail -n 30 "$log" >&2
    die "the build failed (whole log: $log)"
  fi
}
