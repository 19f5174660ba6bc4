#!/usr/bin/env bash
# Sourced by scripts that need a source package of Debian.
#
# The caller defines say and die, and is alone in the directory where it calls this.

# Runs a command quietly; shows the end of its output if it fails.
set -euo pipefail
logged() {
  if ! "$@" >>"$log" 2>&1 </dev/null 9>&-; then
    tail -n 30 "$log" >&2
    die "failed: $*"
  fi
}

# The places in the archive that have a binary package.
archive_places() { apt-cache madison "$1" 2>/dev/null | awk -F ' *\\| *' 'NF > 2 { print $3 }' | sort -u; }

# Downloads the source of a package into the current directory, without unpacking it:
#
#   fetch_source BINARY-PACKAGE SOURCE-PACKAGE
#
# The binary package is one that the source package builds. It tells where to look: apt's own lists
# have no source packages. The system's configuration stays as it is.
fetch_source() {
  local binary=$1 source=$2 keyring options= uri place
  type -P apt-get >/dev/null || die "the source package $source can be fetched only on Debian"
  if [[ -z $(archive_places "$binary") ]]; then
    ((EUID == 0)) || die "there are no package lists; please run as root: apt-get update"
    logged apt-get update
  fi
  [[ -n $(archive_places "$binary") ]] || die "this system's package archive has no $binary"
  mkdir -p apt/lists/partial apt/cache/archives/partial
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  [[ ! -r $keyring ]] || options="[signed-by=$keyring] "
  while read -r uri place _; do
    printf 'deb-src %s%s %s %s\n' "$options" "$uri" "${place%/*}" "${place##*/}"
  done < <(archive_places "$binary") >apt/sources.list
  local apt_options=(
    -o "Dir::Etc::sourcelist=$PWD/apt/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache"
    # The directory is not open to apt's sandbox user.
    -o "APT::Sandbox::User=$(id -un)"
  )
  say "fetching the source package $source"
  logged apt-get "${apt_options[@]}" update
  logged apt-get "${apt_options[@]}" --download-only source "$source"
}
