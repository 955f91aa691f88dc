#!/usr/bin/env bash
# `make bench`: measures rubelet and upstream's kubelet one after the other on the same control plane, containerd and
# images, and bare CRI calls as the floor, in three rounds. Writes docs/performance.md, its plots and its raw data.
# `make bench-quick` (side.sh --quick): one short round, under five minutes once built; fails when a ratio to upstream
# is worse than in tests/bench/reached.tsv by more than a quarter, and two more rounds confirm it.
#   ROUNDS=3                rounds (1 with --quick)
#   RUBELET=PROGRAM         a rubelet that is already built; else cargo builds one of the profile
#   BENCH_PROFILE=release   …
#   SIDE=PROGRAM            the measuring program (crates/rubelet/benches/side), if it is already built
#   OUT=DIR                 where raw data and logs go (target/bench)
#   AGENTS="rubelet …"      which agents (rubelet upstream cri; the quick form has no cri); with fewer there is no report
#   RECORD=1                with --quick: writes tests/bench/reached.tsv instead
#   KEEP=1                  leaves the cluster up at the end
# Needs the machine for itself. Each agent gets a fresh containerd and root directory in each round, the same
# configuration and the same warm-up. A failed run is discarded, and the report says so.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"
cd "$REPO"

CONTAINERD=2.1
# The profile of the measuring programs; the measured agent is built with BENCH_PROFILE.
tools_profile=bench-quick
# A run of one agent takes about seven minutes, a quick one two.
RUN_SECONDS=1500
REACHED=tests/bench/reached.tsv
OUT=$(realpath -m "${OUT:-$REPO/target/bench}")
quick='' needed='rubelet upstream cri' work='' cluster='' bench_pid='' growth_pid='' side='' reporter='' growth='' notes=()

main() {
  case ${1:-} in
    '') ;;
    --quick) quick=--quick ;;
    *) die "usage: side.sh [--quick]" ;;
  esac
  if [[ -n $quick ]]; then
    # CI has built most of these already, for the tests; both agents are measured by the same program.
    ROUNDS=${ROUNDS:-1} needed='rubelet upstream' tools_profile=dev
  else
    ROUNDS=${ROUNDS:-3}
  fi
  # The release profile, as shipped: another build has another size and so uses other memory.
  BENCH_PROFILE=${BENCH_PROFILE:-release}
  AGENTS=${AGENTS:-$needed}
  look_at_load
  prepare
  # The duration printed at the end counts from here.
  SECONDS=0
  rm -rf "$OUT"
  mkdir -p "$OUT"/{raw,logs}
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-bench.XXXXXX")
  cluster=$work/cluster
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  if [[ -n $quick && -n $growth ]]; then
    # It counts CPU time, not elapsed time, so it may run while the control plane starts.
    "$growth" --quick >"$OUT/raw/1-fake.jsonl" &
    growth_pid=$!
  fi
  step "a control plane"
  AUDIT=1 "$ENV_DIR/k8s.sh" start "$cluster"
  # The control plane's start-up work is done before the measurement begins.
  sleep 15
  [[ -z $growth_pid ]] || wait "$growth_pid"
  growth_pid=''
  local round
  for ((round = 1; round <= ROUNDS; round++)); do
    one_round "$round"
  done
  meta >"$OUT/raw/meta.json"
  say "    control plane and all rounds took $((SECONDS / 60)) min $((SECONDS % 60)) s; raw data in $OUT/raw"
  report
}

look_at_load() {
  local load
  load=$(cut -d' ' -f1 /proc/loadavg)
  if awk -v load="$load" 'BEGIN { exit !(load > 1) }'; then
    warn "the load is $load: figures taken on a busy machine are unreliable"
    notes+=("the load average was $load at the start")
  fi
}

# Prepares everything before anything is started.
prepare() {
  local lacks
  if ! lacks=$("$ENV_DIR/can-run.sh"); then
    lacks=${lacks#  - }
    cannot_run "this machine lacks ${lacks//$'\n'  - /; }"
  fi
  "$ENV_DIR/install.sh" cluster || cannot_run "containerd, etcd or kubectl could not be had, see above"
  "$ENV_DIR/k8s-build.sh" kube-apiserver kube-controller-manager kube-scheduler kubelet >/dev/null ||
    cannot_run "Kubernetes' own programs could not be had, see above"
  "$ENV_DIR/images.sh" || cannot_run "the images could not be made, see above"
  [[ -n ${RUBELET:-} ]] || step "building rubelet ($BENCH_PROFILE)"
  RUBELET=$(NODE_PROFILE=$BENCH_PROFILE "$ENV_DIR/rubelet.sh")
  export RUBELET
  step "building the benchmarks"
  side=${SIDE:-$(program side)}
  [[ $AGENTS == "$needed" ]] || return 0
  reporter=$(program report)
  growth=$(program growth)
}

# `program NAME`: builds a benchmark, and prints its path.
program() {
  # With the whole workspace, as the tests are built: one package alone enables other features of the dependencies.
  cargo bench --quiet --locked --profile "$tools_profile" --workspace --bench "$1" --no-run --message-format json |
    jq -r "select(.target.name == \"$1\" and .executable != null).executable"
}

cannot_run() {
  warn "the benchmark cannot run: $1"
  [[ ${CI:-} == false ]] || exit 1
  exit 0
}

# The floor first, then the agents, in reverse order in every other round.
one_round() {
  local order='rubelet upstream' agent
  (($1 % 2)) || order='upstream rubelet'
  for agent in cri $order; do
    [[ " $AGENTS " == *" $agent "* ]] || continue
    step "round $1 of $ROUNDS: $agent"
    if ! one_run "$1" "$agent"; then
      warn "round $1 of $agent failed and is discarded: $(tail -n 1 "$OUT/logs/$1-$agent.log")"
      notes+=("round $1 of $agent failed and was discarded: $(tail -n 1 "$OUT/logs/$1-$agent.log")")
    fi
    take_down_node "bench-$agent-$1"
  done
}

# `one_run ROUND AGENT`, on a new node.
one_run() {
  local log=$OUT/logs/$1-$2.log begin=$SECONDS status=0
  if [[ $2 == cri ]]; then
    "$ENV_DIR/containerd.sh" start "$CONTAINERD" "$cluster/containerd" >"$log" 2>&1 || return 1
  else
    : >"$cluster/agent.log"
    E2E_IMAGES=0 "$ENV_DIR/node.sh" start "$2" "$cluster" >"$log" 2>&1 || return 1
  fi
  timeout "$RUN_SECONDS" "$side" "$cluster" "$2" "$1" "$OUT/raw/$1-$2.jsonl" ${quick:+"$quick"} > >(tee -a "$log") 2>&1 &
  bench_pid=$!
  wait "$bench_pid" || status=$?
  bench_pid=''
  cp "$cluster/agent.log" "$OUT/logs/$1-$2-agent.log" 2>/dev/null || true
  cp "$cluster/containerd/containerd.log" "$OUT/logs/$1-$2-containerd.log" 2>/dev/null || true
  say "    $2 took $((SECONDS - begin)) s in all"
  return "$status"
}

# The next agent must not find the remaining pods.
take_down_node() {
  "$ENV_DIR/node.sh" stop "$cluster" || true
  "$cluster/kubectl" -n "$1" delete pods --all --force --grace-period=0 --wait=false >/dev/null 2>&1 || true
  "$cluster/kubectl" delete namespace "$1" --ignore-not-found --wait=false >/dev/null 2>&1 || true
}

# The conditions of the measurement, for the report.
meta() {
  local bin=$CACHE/containerd-$CONTAINERD/usr/bin version=1 command='make bench'
  [[ ! -e /sys/fs/cgroup/cgroup.controllers ]] || version=2
  [[ -z $quick ]] || command='make bench-quick'
  jq -n --arg command "$command" --arg date "$(date -u +%F)" \
    --arg machine "$(nproc) cores, Linux $(uname -r | grep -oE '^[0-9]+\.[0-9]+'), cgroup v$version" \
    --arg containerd "$("$bin/containerd" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)" \
    --arg runc "$("$CACHE/runc/usr/sbin/runc" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)" \
    --arg kubernetes v1.36.4 --arg rubelet "$(git describe --always --dirty 2>/dev/null || echo unknown)" \
    --argjson rounds "$ROUNDS" --argjson quick "$([[ -n $quick ]] && echo true || echo false)" \
    '{$command, $date, $machine, $containerd, $runc, $kubernetes, $rubelet, $rounds, $quick, notes: $ARGS.positional}' \
    --args "${notes[@]}"
}

report() {
  local agent
  [[ $AGENTS == "$needed" ]] || { say "no report: not all agents were measured" && return 0; }
  for agent in $needed; do
    compgen -G "$OUT/raw/*-$agent.jsonl" >/dev/null || die "no run of $agent went well, see $OUT/logs"
  done
  if [[ -z $quick ]]; then
    step "growth, with a fake runtime and a fake API server"
    "$growth" >"$OUT/raw/1-fake.jsonl"
    step "report"
    "$reporter" "$OUT" docs/performance.md
  elif [[ ${RECORD:-} == 1 ]]; then
    "$reporter" "$OUT" --record "$REACHED"
  else
    guard
  fi
}

# A ratio that seems worse is measured again, up to twice: all rounds together decide, so that a disturbance of the
# machine does not.
guard() {
  step "against the recorded ratios"
  local again
  for again in "once more" "and a last time"; do
    ! "$reporter" "$OUT" --guard "$REACHED" || return 0
    step "$again"
    ROUNDS=$((ROUNDS + 1))
    "$growth" --quick >"$OUT/raw/$ROUNDS-fake.jsonl"
    one_round "$ROUNDS"
    step "all rounds, against the recorded ratios"
  done
  "$reporter" "$OUT" --guard "$REACHED"
}

# shellcheck disable=SC2317,SC2329  # called by the trap
clean() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  local pid
  for pid in $bench_pid $growth_pid; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  if [[ ${KEEP:-} == 1 ]]; then
    say "left up: $cluster (tests/env/node.sh stop, tests/env/k8s.sh stop)"
  else
    "$ENV_DIR/node.sh" stop "$cluster" || true
    "$ENV_DIR/k8s.sh" stop "$cluster" || true
    rm -rf --one-file-system "$work"
  fi
  exit "$status"
}

main "$@"
