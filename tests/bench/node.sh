#!/usr/bin/env bash
# `make bench-node`: rubelet's cost on a real runtime. Starts a private containerd, runs crates/rubelet/benches/node on
# it, which prints tables for docs/performance.md, and removes everything.
#   CONTAINERD=1.6                  which containerd
#   BENCH_PROFILE=bench-quick       which build of rubelet
#   RUBELET=PROGRAM                 a rubelet that is already built
#   RUBELET_BENCH_IDLE_SECONDS=60   how long the idle node is watched
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"
# shellcheck source=tests/env/demo-node.sh
. "$ENV_DIR/demo-node.sh"
cd "$REPO"

CONTAINERD=${CONTAINERD:-2.1}
BENCH_PROFILE=${BENCH_PROFILE:-bench-quick}

main() {
  local lacks
  if ! lacks=$("$ENV_DIR/can-run.sh"); then
    die "this machine cannot run containers. It lacks:"$'\n'"$lacks"
  fi
  "$ENV_DIR/install.sh" runtime
  "$ENV_DIR/images.sh"
  step "building rubelet ($BENCH_PROFILE)"
  cargo bench --quiet --locked --profile "$BENCH_PROFILE" -p rubelet --bench node --no-run

  # shellcheck disable=SC2034  # work is used by demo-node.sh
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-bench.XXXXXX")
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  step "starting a private containerd $CONTAINERD"
  "$ENV_DIR/containerd.sh" start "$CONTAINERD" "$work/containerd"
  cgroup=rubelet-bench.$$
  each_hierarchy make_cgroup
  step "starting pods one after another, then watching them idle; about two minutes"
  machine
  RUBELET_BENCH_DIR=$work RUBELET_BENCH_SOCKET=$work/containerd/containerd.sock RUBELET_BENCH_CGROUP=$cgroup \
    cargo bench --quiet --locked --profile "$BENCH_PROFILE" -p rubelet --bench node
}

# The conditions of the measurement.
machine() {
  local bin=$CACHE/containerd-$CONTAINERD/usr/bin
  printf '%s cores, Linux %s, containerd %s, runc %s, load %s\n\n' "$(nproc)" "$(uname -r | grep -oE '^[0-9]+\.[0-9]+')" \
    "$("$bin/containerd" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)" \
    "$("$CACHE/runc/usr/sbin/runc" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)" "$(cut -d' ' -f1 /proc/loadavg)"
}

# shellcheck disable=SC2317,SC2329  # called by the trap
clean() {
  # The benchmark stops its rubelet itself, unless it was killed.
  rubelet_pid=$(cat "$work/rubelet.pid" 2>/dev/null || true)
  [[ -z $rubelet_pid || $(readlink "/proc/$rubelet_pid/exe") != *rubelet* ]] || stop_rubelet
  "$ENV_DIR/containerd.sh" stop "$work/containerd" || true
  remove_node
}

main "$@"
