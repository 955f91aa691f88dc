#!/usr/bin/env bash
# Prints which crates are part of the program, under which licences, and the texts that their authors ship with them. Equal
# texts are printed once.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tests/env/lib.sh"
cd "$REPO"
export LC_ALL=C

work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-licences.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Crates that only the build needs are not shipped. Ours have no licence but the program's.
cargo tree --locked --offline --quiet -p rubelet -e normal,no-proc-macro --prefix none --format '{p}' |
  awk '$1 !~ /^rubelet/ { print $1, substr($2, 2) }' | sort -u >"$work/crates"
cargo metadata --locked --offline --format-version 1 |
  jq -r '.packages[] | [.name, .version, .license // "see its text", .repository // "-", .manifest_path] | @tsv' | sort >"$work/all"

printf 'The program contains these crates, and the standard library of Rust (MIT OR Apache-2.0):\n\n'
while read -r name version; do
  IFS=$'\t' read -r _ _ licence repository manifest < <(grep -F "$name	$version	" "$work/all" | grep "^$name	")
  printf '%s %s: %s, %s\n' "$name" "$version" "$licence" "$repository"
  find "$(dirname "$manifest")" -maxdepth 1 -type f \
    \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'unlicense*' -o -iname 'copyright*' \) | sort |
    while read -r text; do
      sum=$(sha256sum <"$text")
      printf '%s %s, %s\n' "$name" "$version" "${text##*/}" >>"$work/${sum%% *}.of"
      [[ -e $work/${sum%% *}.text ]] || cp "$text" "$work/${sum%% *}.text"
    done
done <"$work/crates"

# In the order of the first crate of each text.
for of in "$work"/*.of; do
  printf '%s\t%s\n' "$(head -n 1 "$of")" "$of"
done | sort | cut -f 2 | while read -r of; do
  printf '\n%s\n' "--------------------------------------------------------------------------------"
  cat "$of"
  printf '\n'
  tr -d '\r' <"${of%.of}.text"
done
