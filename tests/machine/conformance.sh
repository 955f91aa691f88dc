#!/usr/bin/env bash
# `make conformance`: upstream's [Conformance] suite, unchanged, on a cluster of two machines that kubeadm made.
#   NODE=rubelet|upstream   whose kubelet both nodes run, the control plane's too (rubelet)
#   FOCUS=REGEX SKIP=REGEX  fewer of the specs
#   PROCS=10                how many specs at a time; those marked Serial or Disruptive follow one by one
#   RESUME=1                keeps the results of the run before and tries what has not passed in it
#   CLUSTER=1               takes a cluster that is up already (in RUBELET_MACHINES) and leaves it
#   KEEP=1                  leaves the cluster up at the end
#   RECORD=1                writes the results into conformance.tsv, and docs/conformance.md from it
#   OUT=DIR                 where the report goes (target/conformance/NODE): results.tsv, table.txt, suite.log of each part
# Exit code 1: a spec has failed that passed with the other agent, or that was never run with it.
#   conformance.sh page     writes the table in docs/conformance.md again;  conformance.sh check compares it
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
E2E_DIR=$REPO/tests/e2e
# shellcheck source=tests/e2e/report.sh
. "$E2E_DIR/report.sh"
# shellcheck source=tests/machine/conformance-page.sh
. "$MACHINE_DIR/conformance-page.sh"
page_of conformance 'sig-[a-z-]+'

NODE=${NODE:-rubelet}
PROCS=${PROCS:-10}
ALONE='\[Serial\]|\[Disruptive\]'
# On two cores that nobody else uses, half of each is enough.
TOGETHER_MINUTES=${TOGETHER_MINUTES:-75}
ALONE_MINUTES=${ALONE_MINUTES:-60}
OUT=$(realpath -m "${OUT:-$REPO/target/conformance/$NODE}")
suite_pid='' work=''

main() {
  case ${1:-} in
    '') ;;
    page) page_write && return ;;
    check) page_check && return ;;
    *) die "usage: conformance.sh [page|check]" ;;
  esac
  [[ $NODE == rubelet || $NODE == upstream ]] || die "NODE is rubelet or upstream, not $NODE"
  [[ ${RESUME:-} == 1 ]] || rm -rf "$OUT"
  mkdir -p "$OUT"
  touch "$OUT/results.tsv"
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-conformance.XXXXXX")
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  bin=$("$ENV_DIR/k8s-build.sh" e2e.test ginkgo)
  all_specs >"$OUT/specs.txt"
  cluster
  part together "$PROCS" "$TOGETHER_MINUTES" < <(to_run | grep -vE "$ALONE")
  part alone 1 "$ALONE_MINUTES" < <(to_run | grep -E "$ALONE")
  report
}

# The names of all specs of this run. Where a spec is comes first in the program's list.
all_specs() {
  # The program leaves a directory in TMPDIR for each listing.
  TMPDIR=$work "$bin/e2e.test" --list-tests 2>/dev/null | sed -n 's/^ *[^ ]*\.go:[0-9]*: //p' | grep -F '[Conformance]' |
    grep -E -e "${FOCUS:-.}" | grep -vE -e "${SKIP:-^$}" | sort -u
}

# Those without a result so far, and those that failed.
to_run() { comm -23 "$OUT/specs.txt" <(sort -u <(named "$OUT/results.tsv" passed) <(named "$OUT/results.tsv" skipped)); }

cluster() {
  local name image
  if [[ -z ${CLUSTER:-} ]]; then
    NODE=$NODE "$MACHINE_DIR/cluster.sh" up 2
  fi
  step "images of the suite"
  "$ENV_DIR/e2e-images.sh" full
  "$MACHINE_DIR/images.sh" conformance
  # The spec of an aggregated API server runs an etcd, and not in the control plane's machine.
  for name in $(machines); do
    for image in "$CACHE"/{e2e-images-full,conformance-images}/*.tar "$CACHE/kubeadm-images/etcd.tar"; do
      enter "$name" ctr -n k8s.io images import - <"$image" >/dev/null
    done
  done
  enter node-1 cat /etc/kubernetes/admin.conf >"$work/admin.conf"
}

# `part NAME PROCS MINUTES`, with the names of its specs: adds to the results.
part() {
  local name=$1 procs=$2 minutes=$3 at=$OUT/$1 specs focus
  mapfile -t specs
  ((${#specs[@]})) || return 0
  # An empty one would mean all specs that there are.
  focus=$(printf '%s\n' "${specs[@]}" | exactly)
  [[ -n $focus ]] || die "no expression for ${#specs[@]} specs"
  step "${#specs[@]} specs, $procs at a time, $minutes minutes at most"
  rm -rf "$at"
  mkdir -p "$at"
  "$MACHINE_DIR/run.sh" net -- env -i HOME="$work" TMPDIR="$work" PATH="$CACHE/kubectl/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    setsid "$bin/ginkgo" --procs="$procs" --focus="$focus" --timeout="${minutes}m" \
    --no-color --json-report=report.json --output-dir="$at" --poll-progress-after=0 "$bin/e2e.test" -- \
    --kubeconfig="$work/admin.conf" --provider=skeleton --minStartupPods=0 --disable-log-dump \
    </dev/null >"$at/suite.log" 2>&1 &
  suite_pid=$!
  progress "$at/suite.log" $((minutes * 60 + 120))
  wait "$suite_pid" || true
  suite_pid=''
  [[ -s $at/report.json ]] || die "the suite left no report, see $at/suite.log"
  results "$at/report.json" >"$at/results.tsv"
  replace "$at/results.tsv"
}

# `replace RESULTS`: newer results take the place of older ones.
replace() {
  awk -F '\t' 'NR == FNR { new[$4] = 1; print; next } !($4 in new)' "$1" "$OUT/results.tsv" | sort -t$'\t' -k3,4 >"$OUT/new"
  mv "$OUT/new" "$OUT/results.tsv"
}

# `progress LOG SECONDS`: a line a minute, until the suite has ended.
progress() {
  local begin=$SECONDS next=60
  while kill -0 "$suite_pid" 2>/dev/null; do
    ((SECONDS - begin < $2)) || end_suite
    sleep 1
    ((SECONDS - begin >= next)) || continue
    next=$((next + 60))
    say "    $((SECONDS - begin)) s: $(grep -o '•' "$1" | wc -l) specs done, $(grep -c '^• \[FAILED\]' "$1") failed"
  done
}

# The suite has a session of its own, in which ginkgo is the first process.
end_suite() {
  local session
  # env and setsid replace themselves; ginkgo's parent is run.sh.
  for session in $(pgrep -P "$suite_pid"); do
    kill -KILL -- "-$session" 2>/dev/null || true
  done
  kill "$suite_pid" 2>/dev/null || true
}

report() {
  local name counts=()
  table "$OUT/results.tsv"
  list "not run" "$(comm -23 "$OUT/specs.txt" <(all_names "$OUT/results.tsv"))"
  list "failed" "$(awk -F '\t' '$1 == "failed" { print $4 ": " $5 }' "$OUT/results.tsv")"
  [[ ${RECORD:-} != 1 ]] || page_record "$NODE" "$OUT/results.tsv" "$OUT/specs.txt"
  mapfile -t counts < <(comm -23 <(named "$OUT/results.tsv" failed) <(page_failed_elsewhere "$NODE"))
  if ((${#counts[@]})); then
    say "${RED}conformance: ${#counts[@]} specs that fail have not been seen to fail with the other agent${RESET}, see $OUT"
    exit 1
  fi
  say "${GREEN}conformance: ok${RESET}, report in $OUT"
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  if [[ -n $suite_pid ]]; then end_suite; fi
  if [[ ${KEEP:-}${CLUSTER:-} == *1* ]]; then
    say "left up: tests/machine/cluster.sh down removes it"
  else
    "$MACHINE_DIR/cluster.sh" down || true
  fi
  rm -rf --one-file-system "$work"
  exit "$status"
}

main "$@"
