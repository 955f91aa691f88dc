#!/usr/bin/env bash
# `make e2e-node FOCUS=…`: upstream's node suite (test/e2e_node), unchanged, in a machine with systemd. It starts etcd and an
# API server in itself, and the kubelet as a unit of systemd; specs restart it, and change its configuration.
#   FOCUS=REGEX SKIP=REGEX  which specs; without FOCUS those of DEFAULT below
#   NODE=rubelet|upstream   which kubelet (rubelet); RUBELET=PROGRAM takes one that is built
#   DRIVER=systemd|cgroupfs the driver of containerd and of the kubelet (systemd)
#   PROCS=4                 how many specs at a time; those marked Serial follow one by one, since the node is theirs alone
#   MINUTES=60              ends the suite after that
#   KEEP=1                  leaves the machine up
#   RECORD=1                writes the results into e2e-node.tsv, and docs/conformance.md from it
#   OUT=DIR                 where the report goes (target/e2e-node/NODE): results.tsv, suite.log, kubelet.log
# Exit code 1: a spec has failed that passed with the other agent, or that was never run with it.
#   e2e-node.sh page        writes the table in docs/conformance.md again;  e2e-node.sh check compares it
set -euo pipefail
export RUBELET_MACHINES=${RUBELET_MACHINES:-${TMPDIR:-/tmp}/rubelet-e2e-node}
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
E2E_DIR=$REPO/tests/e2e
# shellcheck source=tests/e2e/report.sh
. "$E2E_DIR/report.sh"
# shellcheck source=tests/machine/conformance-page.sh
. "$MACHINE_DIR/conformance-page.sh"

NODE=${NODE:-rubelet}
DRIVER=${DRIVER:-systemd}
MINUTES=${MINUTES:-60}
PROCS=${PROCS:-4}
# What a kubelet does by itself, apart from what `make e2e` runs on a cluster: static and mirror pods, cgroups, node
# allocatable, host names, log paths, restarts, the lives of containers, pods of unknown origin, shutdown.
DEFAULT='MirrorPod|StaticPod|Kubelet Cgroup Manager|Node Container Manager|Hostname of Pod|ContainerLogPath|Restart \[Serial\]'
DEFAULT+='|Containers? Lifecycle|Unknown Pods|Terminate Pods|GracefulNodeShutdown'
page_of e2e-node "$DEFAULT"
SKIPPED='\[Feature:(GPUDevicePlugin|SriovDevicePlugin|NodeProblemDetector)'
RUN=$MACHINE_DIR/run.sh
OUT=$(realpath -m "${OUT:-$REPO/target/e2e-node/$NODE}")
DIR=/var/lib/e2e-node
suite_pid=''

main() {
  case ${1:-} in
    '') ;;
    page) page_write && return ;;
    check) page_check && return ;;
    *) die "usage: e2e-node.sh [page|check]" ;;
  esac
  [[ $NODE == rubelet || $NODE == upstream ]] || die "NODE is rubelet or upstream, not $NODE"
  [[ $DRIVER == systemd || $DRIVER == cgroupfs ]] || die "DRIVER is systemd or cgroupfs, not $DRIVER"
  local bin program
  bin=$("$ENV_DIR/k8s-build.sh" e2e_node.test ginkgo kubelet)
  if [[ $NODE == rubelet ]]; then program=$("$ENV_DIR/rubelet.sh"); else program=$bin/kubelet; fi
  "$ENV_DIR/e2e-images.sh"
  "$MACHINE_DIR/images.sh"
  rm -rf "$OUT"
  mkdir -p "$OUT"
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  step "a machine with $NODE"
  "$RUN" up 1
  machine "$bin" "$program"
  step "upstream's node suite, $MINUTES minutes at most"
  suite
  report
}

# `machine BIN PROGRAM`
machine() {
  local image
  enter node-1 mkdir -p "$DIR"/{bin,report}
  "$RUN" put "$1/e2e_node.test" node-1 "$DIR/e2e_node.test"
  "$RUN" put "$1/ginkgo" node-1 "$DIR/ginkgo"
  "$RUN" put "$2" node-1 "$DIR/bin/kubelet"
  configuration | enter node-1 sh -c "cat >$DIR/kubelet.yaml"
  # The suite calls it, and is root.
  # shellcheck disable=SC2016
  printf '%s\n' '#!/bin/sh' 'exec "$@"' | enter node-1 install -m 0755 /dev/stdin /usr/local/bin/sudo
  if [[ $DRIVER == cgroupfs ]]; then
    enter node-1 sed -i 's/SystemdCgroup = true/SystemdCgroup = false/' /etc/containerd/config.toml
    enter node-1 systemctl restart containerd
  fi
  for image in "$CACHE"/e2e-images/*.tar "$CACHE"/kubeadm-images/{etcd,pause}.tar; do
    enter node-1 ctr -n k8s.io images import - <"$image" >/dev/null
  done
}

# Like upstream's own jobs (jenkins/default-kubelet-config.yaml), without shares of this host's disk.
configuration() {
  cat <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: $DRIVER
cgroupRoot: /
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
podCIDR: $POD_PREFIX.1.0/24
volumeStatsAggPeriod: 10s
fileCheckFrequency: 10s
evictionPressureTransitionPeriod: 30s
evictionHard: {memory.available: 250Mi, nodefs.available: 200Mi, imagefs.available: 200Mi}
imageGCHighThresholdPercent: 100
serializeImagePulls: false
END
}

suite() {
  enter node-1 sh -c "cd $DIR && exec ./ginkgo --procs=$PROCS --no-color --timeout=${MINUTES}m --json-report=report.json --output-dir=report \
    --focus='${FOCUS:-$DEFAULT}' --skip='${SKIP:-$SKIPPED}' --poll-progress-after=0 ./e2e_node.test -- \
    --k8s-bin-dir=$DIR/bin --kubelet-config-file=$DIR/kubelet.yaml --report-dir=$DIR/report --node-name=node-1 \
    --container-runtime-endpoint=unix:///run/containerd/containerd.sock --prepull-images=false" </dev/null >"$OUT/suite.log" 2>&1 &
  suite_pid=$!
  progress
  wait "$suite_pid" || true
  suite_pid=''
  enter node-1 tar -C "$DIR/report" -c . | tar -C "$OUT" -x --no-same-owner
}

# A line a minute. A suite that does not end by itself ends with its machine.
progress() {
  local begin=$SECONDS next=60
  while kill -0 "$suite_pid" 2>/dev/null && ((SECONDS - begin < MINUTES * 60 + 120)); do
    sleep 1
    ((SECONDS - begin >= next)) || continue
    next=$((next + 60))
    say "    $((SECONDS - begin)) s: $(grep -o '•' "$OUT/suite.log" | wc -l) specs done, $(grep -c '^• \[FAILED\]' "$OUT/suite.log") failed"
  done
  if kill -0 "$suite_pid" 2>/dev/null; then
    tail -n 20 "$OUT/suite.log" >&2
    die "the suite does not end, see $OUT/suite.log"
  fi
}

report() {
  local bad=()
  [[ -s $OUT/report.json ]] || { tail -n 40 "$OUT/suite.log" >&2 && die "the suite left no report, see $OUT/suite.log"; }
  results "$OUT/report.json" >"$OUT/results.tsv"
  table "$OUT/results.tsv"
  list failed "$(awk -F '\t' '$1 == "failed" { print $4 ": " $5 }' "$OUT/results.tsv")"
  list skipped "$(awk -F '\t' '$1 == "skipped" { print $4 ": " $5 }' "$OUT/results.tsv")"
  [[ -s $OUT/results.tsv ]] || die "no spec has run, see $OUT/suite.log"
  [[ ${RECORD:-} != 1 ]] || page_record "$NODE" "$OUT/results.tsv" <(all_names "$OUT/results.tsv")
  mapfile -t bad < <(comm -23 <(named "$OUT/results.tsv" failed) <(page_failed_elsewhere "$NODE"))
  if ((${#bad[@]})); then
    say "${RED}e2e-node: ${#bad[@]} specs that fail have not been seen to fail with the other agent${RESET}, see $OUT"
    exit 1
  fi
  say "${GREEN}e2e-node: ok${RESET}, report in $OUT"
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  if [[ ${KEEP:-} == 1 ]]; then
    say "left up: RUBELET_MACHINES=$RUBELET_MACHINES tests/machine/run.sh down"
  else
    "$RUN" down || true
  fi
  exit "$status"
}

main "$@"
