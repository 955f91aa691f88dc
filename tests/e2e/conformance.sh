#!/usr/bin/env bash
# Generates the end of docs/conformance.md from waiting.txt and last-full-run.txt:
#   conformance.sh               writes it
#   conformance.sh check         fails if the page is out of date, or if ci-specs.txt is not a subset of upstream-passes.txt
#   conformance.sh ran RESULTS   records that a full run of the checked-out commit has passed, and writes it
set -euo pipefail
E2E_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/env/lib.sh
. "$E2E_DIR/../env/lib.sh"
# shellcheck source=tests/e2e/report.sh
. "$E2E_DIR/report.sh"

page=$REPO/docs/conformance.md
begin='<!-- tests/e2e/conformance.sh writes what follows -->'
# Commit, day, specs that passed, specs that count: written by a full run.
LAST=$E2E_DIR/last-full-run.txt
CI_MOST=120

generated() {
  local all waiting
  all=$(wc -l < <(passes))
  waiting=$(comm -12 <(passes) <(waiting_names) | wc -l)
  awk -v last="$begin" '{ print } $0 == last { exit }' "$page"
  echo
  last_run
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

last_run() {
  local commit day passed counted
  if [[ ! -e $LAST ]]; then
    echo "No full run (\`make e2e-full\`) has been noted yet."
    return
  fi
  read -r commit day passed counted <"$LAST"
  echo "The last full run (\`make e2e-full\`, with every scenario) that passed was of commit $commit, on $day: $passed of $counted specs."
}

# A run with uncommitted changes is recorded as such.
ran() {
  local results=$1
  printf '%s %s %d %d\n' "$(git -C "$REPO" describe --always --abbrev=12 --dirty=+changes --exclude '*')" "$(date -u +%F)" \
    "$(comm -12 <(named "$results" passed) <(passes) | wc -l)" "$(passes | comm -12 - <(all_names "$results") | wc -l)" >"$LAST"
  write
}

write() {
  generated >"$page.new"
  mv "$page.new" "$page"
}

unknown=$(comm -23 <(waiting_names) <(passes))
[[ -z $unknown ]] || die "specs in waiting.txt that upstream-passes.txt does not have:"$'\n'"$unknown"
! sed '/^#/d; /^$/d' "$WAITING" | grep -vP '\t.' || die "lines of waiting.txt without a reason, see above"

chosen=$(comm -23 <(ci_specs) <(comm -23 <(passes) <(waiting_names)))
[[ -z $chosen ]] || die "specs in ci-specs.txt that upstream-passes.txt does not have, or that wait for something:"$'\n'"$chosen"
(($(wc -l < <(ci_specs)) <= CI_MOST)) || die "ci-specs.txt has more than $CI_MOST specs"
both=$(comm -12 <(passes) <(fails))
[[ -z $both ]] || die "specs in upstream-passes.txt and in upstream-fails.txt:"$'\n'"$both"

case ${1:-} in
  '') write ;;
  ran) ran "$2" ;;
  check) diff <(generated) "$page" >&2 || die "docs/conformance.md does not fit waiting.txt and last-full-run.txt: run tests/e2e/conformance.sh" ;;
  *) die "usage: conformance.sh [check | ran RESULTS]" ;;
esac
