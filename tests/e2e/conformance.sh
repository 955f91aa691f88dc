#!/usr/bin/env bash
# The table of docs/conformance.md, from waiting.txt:
#   conformance.sh          writes it
#   conformance.sh check    fails if it is not what would be written
set -euo pipefail
E2E_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/env/lib.sh
. "$E2E_DIR/../env/lib.sh"
# shellcheck source=tests/e2e/report.sh
. "$E2E_DIR/report.sh"

page=$REPO/docs/conformance.md
begin='<!-- tests/e2e/conformance.sh writes what follows -->'

generated() {
  local all waiting
  all=$(wc -l < <(passes))
  waiting=$(comm -12 <(passes) <(waiting_names) | wc -l)
  awk -v last="$begin" '{ print } $0 == last { exit }' "$page"
  echo
  if ((waiting == 0)); then
    echo "Upstream's kubelet passes $all of the default specs here, and rubelet must pass them all: none waits for anything."
    return
  fi
  echo "Upstream's kubelet passes $all of the default specs here. rubelet must pass $((all - waiting)) of them; the other $waiting wait:"
  echo
  echo "| waits for | spec |"
  echo "|---|---|"
  sed '/^#/d; /^$/d' "$WAITING" | sort -t$'\t' -k2,2 -k1,1 | awk -F '\t' '{ gsub(/\|/, "\\|"); print "| " $2 " | " $1 " |" }'
}

unknown=$(comm -23 <(waiting_names) <(passes))
[[ -z $unknown ]] || die "specs in waiting.txt that upstream-passes.txt does not have:"$'\n'"$unknown"
! sed '/^#/d; /^$/d' "$WAITING" | grep -vP '\t.' || die "lines of waiting.txt without a reason, see above"

case ${1:-} in
  '')
    generated >"$page.new"
    mv "$page.new" "$page"
    ;;
  check) diff <(generated) "$page" >&2 || die "docs/conformance.md does not fit waiting.txt: run tests/e2e/conformance.sh" ;;
  *) die "usage: conformance.sh [check]" ;;
esac
