#!/usr/bin/env bash
# The cost of an idle agent, on the systemd driver and then on cgroupfs, in the same machine: CPU time over a minute and memory,
# without pods and with 100. The systemd driver must cost no more. Not among those that run by default: it wants a quiet machine.
set -euo pipefail
# shellcheck source=tests/machine/scenarios/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PODS=100
READY_SECONDS=600
MINUTE=60
# Of noise: percent of a core, and KiB.
CPU_NOISE=0.15 RSS_NOISE=2048
declare -A cpu rss

main() {
  begin
  driver systemd true
  both systemd
  driver cgroupfs false
  both cgroupfs
  driver systemd true
  no_more "CPU at 100 pods" "${cpu[systemd 100]}" "${cpu[cgroupfs 100]}" "$CPU_NOISE"
  no_more "RSS at 100 pods" "${rss[systemd 100]}" "${rss[cgroupfs 100]}" "$RSS_NOISE"
}

# `driver NAME SYSTEMD_CGROUP`: pods are removed first, as a runtime cannot move them.
driver() {
  on sed -i "s/SystemdCgroup = .*/SystemdCgroup = $2/" /etc/containerd/config.toml
  on systemctl restart containerd
  configure "cgroupDriver: $1"
}

# `both DRIVER`
both() {
  cost "$1" 0
  idle_pods
  timed "$PODS pods ready with $1" "$READY_SECONDS" replaced idle "$PODS" || wrong "$PODS pods are not ready"
  cost "$1" "$PODS"
  gone idle
}

# Without probes, as what is measured is the agent's own work.
idle_pods() {
  k apply -f - >/dev/null <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: idle}
spec:
  replicas: $PODS
  selector: {matchLabels: {app: idle}}
  template:
    metadata: {labels: {app: idle}}
    spec:
      nodeSelector: {kubernetes.io/hostname: $NODE}
      terminationGracePeriodSeconds: 1
      containers:
      - name: pause
        image: registry.k8s.io/pause:3.10.2
        resources: {requests: {cpu: 1m, memory: 4Mi}, limits: {memory: 16Mi}}
END
}

# `cost DRIVER PODS`
cost() {
  local pid before
  # What the start of pods and of the agent leaves behind is over.
  sleep 30
  pid=$(on systemctl show --property MainPID --value kubelet)
  before=$(ticks "$pid")
  sleep "$MINUTE"
  cpu[$1 $2]=$(awk -v ticks="$(($(ticks "$pid") - before))" -v hz="$(getconf CLK_TCK)" -v s="$MINUTE" 'BEGIN { printf "%.2f", 100 * ticks / hz / s }')
  # shellcheck disable=SC2016
  rss[$1 $2]=$(on awk '$1 == "VmRSS:" { print $2 }' "/proc/$pid/status")
  measured "$1, $2 pods" "${cpu[$1 $2]} % CPU, $(awk -v kib="${rss[$1 $2]}" 'BEGIN { printf "%.1f", kib / 1024 }') MiB"
}
# utime and stime. The name in brackets has no blank.
# shellcheck disable=SC2016
ticks() { on awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# `no_more WHAT SYSTEMD CGROUPFS NOISE`
no_more() { awk -v a="$2" -v b="$3" -v noise="$4" 'BEGIN { exit !(a <= b * 1.1 + noise) }' || wrong "$1: $2 with systemd, $3 with cgroupfs"; }

main
