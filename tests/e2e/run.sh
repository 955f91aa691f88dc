#!/usr/bin/env bash
# `make e2e` and `make e2e-full`: upstream's own e2e suite, unchanged, against a node on a real control plane; then the
# scenarios.
#   SIZE=ci|full            which specs: those of ci-specs.txt, or [NodeConformance] and those of LIVES without SKIPPED below
#                           (ci; with NODE=upstream full). A full run that passes is recorded in docs/conformance.md
#   NODE=rubelet|upstream   which agent the node runs (rubelet)
#   FOCUS=REGEX SKIP=REGEX  other specs instead
#   PROCS=14                how many specs at a time: most wait rather than work
#   RETRY=0                 specs that fail are not tried a second time
#   SCENARIOS="join …"      which scenarios follow (join restart resize swap outage metrics usage); with FOCUS or NODE=upstream none by default
#   SUITE=0                 only the scenarios
#   RECORD=1                with NODE=upstream: records passed and failed specs in upstream-passes.txt and upstream-fails.txt
#   OUT=DIR                 where the report goes (target/e2e/NODE): junit.xml, report.json, results.tsv, logs/
#   KEEP=1                  leaves the cluster up at the end, for inspection
#   RUBELET, NODE_PROFILE, K8S_BIN: see tests/env/node.sh and k8s-build.sh
#
# A spec counts if upstream passes it (upstream-passes.txt) and it waits for no missing feature (waiting.txt). Exit code
# 0: all specs that count have passed. 1: some have not. With CI=false it is also 0 if the tier cannot run at all.
set -euo pipefail
E2E_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/env/lib.sh
. "$E2E_DIR/../env/lib.sh"
# shellcheck source=tests/e2e/report.sh
. "$E2E_DIR/report.sh"
cd "$REPO"

NODE=${NODE:-rubelet}
if [[ $NODE == upstream || -n ${FOCUS:-} ]]; then SIZE=${SIZE:-full}; else SIZE=${SIZE:-ci}; fi
PROCS=${PROCS:-14}
# More of a pod's life cycle: resize, restart rules, statuses of pods that are deleted at any moment.
LIVES='Pod InPlace Resize|Pod Extended|PodRejectionStatus|Pods Extended Pod Container Status|Pods Extended \(pod generation\)|PreStop should'
DEFAULT_FOCUS="\[NodeConformance\]|\[sig-node\] ($LIVES)"
SKIPPED='\[Serial\]|\[Slow\]|\[Disruptive\]|\[Feature:|\[Alpha\]|\[sig-network\]'
ALL_SCENARIOS='join restart resize swap outage metrics usage'
# All specs take 16 minutes on two idle cores.
SUITE_MINUTES=45
OUT=$(realpath -m "${OUT:-$REPO/target/e2e/$NODE}")
work='' suite_pid='' bad=0 failed=()

main() {
  [[ $NODE == rubelet || $NODE == upstream ]] || die "NODE is rubelet or upstream, not $NODE"
  [[ $SIZE == ci || $SIZE == full ]] || die "SIZE is ci or full, not $SIZE"
  prepare
  rm -rf "$OUT"
  mkdir -p "$OUT/logs"
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-e2e.XXXXXX")
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  [[ ${SUITE:-1} == 0 ]] || suite
  scenarios
  if ((bad)); then
    # Repeated at the end, where a log is read first.
    say "${RED}e2e: not all is well${RESET}, see $OUT"
    printf '    %s\n' "${failed[@]}"
  else
    say "${GREEN}e2e: ok${RESET}, report in $OUT"
    if is_whole; then "$E2E_DIR/conformance.sh" ran "$OUT/results.tsv"; fi
  fi
  exit "$bad"
}

# Whether this run has tried all specs that count: only such a run is recorded.
is_whole() {
  [[ $SIZE == full && $NODE == rubelet && -z ${FOCUS:-} && -z ${SKIP+set} && ${SUITE:-1} != 0 && $SCENARIOS == "$ALL_SCENARIOS" ]]
}

# Prepares everything before anything is started.
prepare() {
  local lacks
  if ! lacks=$("$ENV_DIR/can-run.sh"); then
    lacks=${lacks#  - }
    cannot_run "this machine lacks ${lacks//$'\n'  - /; }"
  fi
  "$ENV_DIR/install.sh" cluster || cannot_run "containerd, etcd or kubectl could not be had, see above"
  [[ -n ${SCENARIOS+set} || $NODE == upstream || -n ${FOCUS:-} ]] || SCENARIOS=$ALL_SCENARIOS
  # Before K8S_BIN is set: with it nothing is built.
  if [[ " ${SCENARIOS:-} " == *' usage '* ]]; then
    "$ENV_DIR/k8s-build.sh" metrics-server >/dev/null || cannot_run "metrics-server could not be had, see above"
  fi
  K8S_BIN=$("$ENV_DIR/k8s-build.sh") || cannot_run "Kubernetes' own programs could not be had, see above"
  export K8S_BIN
  "$ENV_DIR/e2e-images.sh" || cannot_run "the images could not be made, see above"
  if [[ $NODE == rubelet || -n ${SCENARIOS:-} ]]; then
    [[ -n ${RUBELET:-} ]] || step "building rubelet"
    RUBELET=$("$ENV_DIR/rubelet.sh")
    export RUBELET
  fi
}

cannot_run() {
  warn "tier e2e cannot run: $1"
  [[ ${CI:-} == false ]] || exit 1
  exit 0
}

suite() {
  local cluster=$work/cluster
  step "a control plane, and a node with $NODE"
  "$ENV_DIR/k8s.sh" start "$cluster"
  "$ENV_DIR/node.sh" start "$NODE" "$cluster"
  if [[ $SIZE == ci && -z ${FOCUS:-} ]]; then
    step "upstream's e2e suite, $(wc -l < <(ci_specs)) specs of ci-specs.txt, $PROCS at a time"
    ginkgo "$OUT" "$PROCS" "$(exactly < <(ci_specs))" "${SKIP:-}" || true
  else
    step "upstream's e2e suite, $PROCS specs at a time"
    ginkgo "$OUT" "$PROCS" "${FOCUS:-$DEFAULT_FOCUS}" "${SKIP-$SKIPPED}" || true
  fi
  [[ -s $OUT/report.json ]] || die "the suite left no report, see $OUT/logs/suite.log"
  results "$OUT/report.json" >"$OUT/results.tsv"
  [[ $SIZE != ci || -n ${FOCUS:-}${SKIP:-} ]] || all_ran
  [[ ${RETRY:-1} == 0 || $NODE == upstream ]] || second_try
  cp "$cluster"/*.log "$cluster/containerd/containerd.log" "$OUT/logs/"
  table "$OUT/results.tsv"
  verdict "$OUT/results.tsv" || { bad=1 && mapfile -t -O "${#failed[@]}" failed < <(why_failed "$OUT/results.tsv"); }
  if [[ ${RECORD:-} == 1 && $NODE == upstream ]]; then record "$OUT/results.tsv"; fi
  [[ ${KEEP:-} == 1 ]] || take_down "$cluster"
}

# `ginkgo OUT PROCS FOCUS SKIP`
ginkgo() {
  local out=$1
  env -i HOME="$work" TMPDIR="$work" PATH="$CACHE/kubectl/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    setsid "$K8S_BIN/ginkgo" --procs="$2" --focus="$3" ${4:+--skip="$4"} --timeout="${SUITE_MINUTES}m" --no-color \
    --json-report=report.json --junit-report=junit.xml --output-dir="$out" --poll-progress-after=0 \
    "$K8S_BIN/e2e.test" -- --kubeconfig="$work/cluster/admin.conf" --provider=skeleton --minStartupPods=0 \
    --disable-log-dump </dev/null >"$out/suite.log" 2>&1 &
  suite_pid=$!
  progress "$out/suite.log" &
  wait "$suite_pid" || true
  suite_pid=''
  mkdir -p "$out/logs"
  mv "$out/suite.log" "$out/logs/suite.log"
}

# A spec of ci-specs.txt that the suite no longer has would otherwise be skipped silently.
all_ran() {
  local absent
  absent=$(comm -23 <(ci_specs) <(all_names "$OUT/results.tsv"))
  [[ -z $absent ]] || { bad=1 && failed+=("not run, although in ci-specs.txt:" "$absent"); }
}

# Prints the progress of the suite twice a minute: each finished spec leaves a bullet in its log.
progress() {
  local pid=$suite_pid begin=$SECONDS next=30
  while kill -0 "$pid" 2>/dev/null && ((SECONDS - begin < SUITE_MINUTES * 60 + 60)); do
    sleep 1
    ((SECONDS - begin >= next)) || continue
    next=$((next + 30))
    say "    $((SECONDS - begin)) s: $(grep -o '•' "$1" | wc -l) specs done, $(grep -c '^• \[FAILED\]' "$1") failed"
  done
}

# Specs that failed and count get a second try on a quieter machine, which is reported.
second_try() {
  local again
  again=$(failures_that_count "$OUT/results.tsv")
  [[ -n $again ]] || return 0
  # So many failures are no accident.
  (($(wc -l <<<"$again") <= 25)) || return 0
  step "a second try of $(wc -l <<<"$again") specs"
  ginkgo "$OUT/second" 4 "$(exactly <<<"$again")" '' || true
  [[ -s $OUT/second/report.json ]] || return 0
  results "$OUT/second/report.json" >"$OUT/second/results.tsv"
  merge_second "$OUT/results.tsv" "$OUT/second/results.tsv"
}

scenarios() {
  local name
  for name in ${SCENARIOS:-}; do
    [[ -x $E2E_DIR/$name.sh ]] || die "no such scenario: $name"
    step "scenario $name"
    if "$E2E_DIR/$name.sh" "$work/$name" "$OUT/logs/$name"; then
      say "    ${GREEN}passed${RESET} $name"
    else
      say "    ${RED}failed${RESET} $name"
      bad=1 failed+=("scenario $name")
    fi
    take_down "$work/$name"
  done
}

take_down() {
  "$ENV_DIR/node.sh" stop "$1" || true
  "$ENV_DIR/k8s.sh" stop "$1" || true
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  local status=$? at
  trap - EXIT
  trap '' INT TERM HUP
  if [[ -n $suite_pid ]]; then
    # A separate session: the suite's workers are in its process group.
    kill -- "-$suite_pid" 2>/dev/null || true
    wait "$suite_pid" 2>/dev/null || true
  fi
  if [[ ${KEEP:-} == 1 ]]; then
    say "left up: $work/cluster (tests/env/node.sh stop, tests/env/k8s.sh stop)"
  else
    for at in "$work"/*; do
      [[ ! -e $at/env ]] || take_down "$at"
    done
    rm -rf --one-file-system "$work"
  fi
  exit "$status"
}

main "$@"
