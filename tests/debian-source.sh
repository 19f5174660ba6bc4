#!/usr/bin/env bash
# Sourced by scripts that build something from a source package of Debian, after wait_for_turn and
# begin_build of cached-build.sh, which this sources. The caller defines say and die.
set -euo pipefail

# shellcheck source=tests/cached-build.sh
. "$(dirname "${BASH_SOURCE[0]}")/cached-build.sh"

# The prefix of commands that run as root. need_root takes the command for its message.
as_root=()
need_root() {
  ((EUID != 0)) || return 0
  type -P sudo >/dev/null || die "run as root, because sudo is not installed: $*"
  as_root=(sudo)
}

# Installs what is missing. Each line of standard input has a file, or a program on PATH, and its package.
install_missing() {
  local file package needed=() install
  while read -r file package; do
    if [[ $file == /* ]]; then
      [[ -x $file ]] || needed+=("$package")
    else
      type -P "$file" >/dev/null || needed+=("$package")
    fi
  done
  ((${#needed[@]})) || return 0
  need_root apt-get install "${needed[@]}"
  say "installing ${needed[*]}"
  install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y
    --no-install-recommends "${needed[@]}")
  # Old package lists may name files that the archive no longer has, so update them once and try again.
  if ! "${install[@]}" >>"$log" 2>&1 </dev/null 9>&-; then
    logged "${as_root[@]}" apt-get update
    logged "${install[@]}"
  fi
}

# The places in the archive that have these binary packages.
archive_places() { apt-cache madison "$@" 2>/dev/null | awk -F ' *\\| *' 'NF > 2 { print $3 }' | sort -u; }

# Makes lists of our own, in $work, of the places that have these binary packages. The system's lists
# have no source packages, and its configuration stays as it is.
open_archive() {
  local package keyring=/usr/share/keyrings/debian-archive-keyring.gpg options= uri place directory=$work/apt
  type -P apt-get >/dev/null || die "this can be built only on Debian"
  if [[ -z $(archive_places "$@") ]]; then
    need_root apt-get update
    say "fetching the package lists"
    logged "${as_root[@]}" apt-get update
  fi
  for package in "$@"; do
    [[ -n $(archive_places "$package") ]] || die "this system's package archive has no $package"
  done
  mkdir -p "$directory/lists/partial" "$directory/cache/archives/partial"
  [[ ! -r $keyring ]] || options="[signed-by=$keyring] "
  while read -r uri place _; do
    printf '%s %s%s %s %s\n' deb "$options" "$uri" "${place%/*}" "${place##*/}"
    printf '%s %s%s %s %s\n' deb-src "$options" "$uri" "${place%/*}" "${place##*/}"
  done < <(archive_places "$@") >"$directory/sources.list"
  archive_options=(
    -o "Dir::Etc::sourcelist=$directory/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$directory/lists" -o "Dir::Cache=$directory/cache"
    # The directory is not open to apt's sandbox user.
    -o "APT::Sandbox::User=$(id -un)"
  )
  logged apt-get "${archive_options[@]}" update
}

# Downloads a source package into the current directory, without unpacking it.
fetch_source() {
  say "fetching the source package $1"
  logged apt-get "${archive_options[@]}" --download-only source "$1"
}

# Downloads binary packages into the current directory, without installing them.
fetch_packages() { logged apt-get "${archive_options[@]}" download "$@"; }
