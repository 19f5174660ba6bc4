# Prints the digest of each function of a program, and the function, from the output of
# `nm --format=posix`. A digest is the same in another build, whatever the versions of the
# compiler and of the crates are, as long as the function has the same path and types.

BEGIN { for (i = 1; i < 256; i++) code[sprintf("%c", i)] = i }

function digest(name,   i, sum) {
  # The hash of a crate and its version, and the number of a copy.
  gsub(/Cs[0-9A-Za-z]+_/, "C", name)
  sub(/\.llvm\.[0-9]+$/, "", name)
  # Below 2^44, so that no product exceeds the 2^53 of a number here.
  for (i = 1; i <= length(name); i++) sum = (sum * 257 + code[substr(name, i, 1)]) % 17592186044399
  return sprintf("%.0f", sum)
}

NF >= 3 && $2 ~ /^[tTwW]$/ { print digest($1), $1 }
