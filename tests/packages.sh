#!/usr/bin/env bash
# Packs the crates, and compiles from the packages alone: the test in Rust that docs/testing.md shows, and the
# program.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo=${CARGO:-cargo}
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
work=$target/packages
rm -rf "$work" "$target"/package/*.crate
mkdir -p "$work/shop/tests"

"$cargo" package --workspace --exclude kube-gc-testkit --locked --no-verify --allow-dirty --quiet
for package in "$target"/package/*.crate; do tar --extract --file "$package" --directory "$work"; done

# Prints the block of the page that begins with this line.
block() { sed -n "\\|^$1\$|,/^\`\`\`/ { /^\`\`\`/d; p; }" docs/testing.md; }
block '// tests/cascade.rs' >"$work/shop/tests/cascade.rs"
cp Cargo.lock "$work/shop/"
{
  printf '[package]\nname = "shop"\nedition = "2024"\n\n[lib]\npath = "/dev/null"\n\n[workspace]\n\n'
  printf '[features]\nprogram = ["kube-gc/default"]\n\n'
  # Only features of dependencies that are not of tests can be switched on.
  block '# Cargo.toml' | sed 's/path = "[^"]*"/version = "*"/; s/^\[dev-/[/'
  printf '\n[patch.crates-io]\n'
  for crate in "$work"/kube-gc*/; do
    name=$(sed -n 's/^name = "\(.*\)"/\1/p;T;q' "$crate/Cargo.toml")
    printf '%s = { path = "%s" }\n' "$name" "$crate"
  done
} >"$work/shop/Cargo.toml"
"$cargo" check --tests --features program --manifest-path "$work/shop/Cargo.toml"
# With the library, an application chooses the version of Kubernetes.
sed --in-place 's/"v1_33"/"latest"/' "$work/shop/Cargo.toml"
"$cargo" check --tests --manifest-path "$work/shop/Cargo.toml"
