#!/usr/bin/env bash
# Bad days of a node with the systemd driver. Running pods never notice:
#   - values of slices that somebody changed are set right; a slice that somebody else made is used and set right;
#   - processes and slices of pods that are gone are ended and removed;
#   - a process of a pod that cannot be killed holds up nothing but its own pod;
#   - no logind, no D-Bus, a full /run: the node goes on as far as it can, and is whole again afterwards.
#   ONLY="values …" chooses
set -euo pipefail
# shellcheck source=tests/machine/scenarios/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PODS=10
DAYS=(values foreign leftovers unkillable no_logind no_dbus full_run)
# Cgroups of the node are looked at each minute.
LOOK=150
WATCHED=(-l app=calm)
STATIC_UID=5ca1ab1e-0000-4000-8000-000000000015

main() {
  local day
  begin
  started calm "$PODS"
  sleep "$SETTLE"
  for day in ${ONLY:-${DAYS[@]}}; do
    unaffected "pods that run: ${day//_/ }" "$day"
  done
  settled
  gone calm
}

slice_of() { on systemctl list-units --all --plain --no-legend --no-pager "kubepods*-pod${1//-/_}.slice" | cut -d ' ' -f 1; }
# `value_of SLICE FILE…`: the value as the kernel has it, of the first file that is there: of cgroup v1, or of v2.
value_of() {
  local slice=$1
  shift
  # shellcheck disable=SC2016
  on sh -c 'slice=$1
    shift
    for file; do find /sys/fs/cgroup -maxdepth 6 -path "*/$slice/$file" -exec cat {} + -quit; done | head -n 1' sh "$slice" "$@"
}

# --- Values ---

values() {
  local one slice limit shares
  limited 1
  one=$(uids -l app=limited)
  slice=$(slice_of "$one")
  limit=$(memory_of "$slice") shares=$(cpu_of kubepods.slice)
  [[ $limit == $((100 << 20)) ]] || wrong "the pod's slice has $limit as its memory limit"
  on systemctl set-property --runtime "$slice" MemoryMax=900M
  on systemctl set-property --runtime kubepods.slice CPUShares=77
  on systemctl set-property --runtime kubepods.slice CPUWeight=77
  [[ $(memory_of "$slice") != "$limit" && $(cpu_of kubepods.slice) != "$shares" ]] || wrong "the values did not change"
  timed "a pod's slice is set right" "$LOOK" is_memory "$slice" "$limit" || wrong "$slice has $(memory_of "$slice"), not $limit"
  timed "kubepods.slice is set right" "$LOOK" is_cpu kubepods.slice "$shares" || wrong "kubepods.slice has $(cpu_of kubepods.slice), not $shares"
  k delete deployment limited --wait=false >/dev/null
}

memory_of() { value_of "$1" memory.limit_in_bytes memory.max; }
cpu_of() { value_of "$1" cpu.shares cpu.weight; }
is_memory() { [[ $(memory_of "$1") == "$2" ]]; }
is_cpu() { [[ $(cpu_of "$1") == "$2" ]]; }

# `limited REPLICAS`: pods with limits.
limited() {
  k apply -f - >/dev/null <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: limited}
spec:
  replicas: $1
  selector: {matchLabels: {app: limited}}
  template:
    metadata: {labels: {app: limited}}
    spec:
      nodeSelector: {kubernetes.io/hostname: $NODE}
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: registry.k8s.io/e2e-test-images/agnhost:2.63.0
        args: [pause]
        resources: {requests: {cpu: 20m, memory: 20Mi}, limits: {cpu: 500m, memory: 100Mi}}
END
  until_true 90 replaced limited "$1" || wrong "pods of limited are not ready"
}

# --- Slices of others ---

# The slice of a pod that is still to come, with a process in it and another limit: less than the pod needs.
foreign() {
  local slice=kubepods-burstable-pod${STATIC_UID//-/_}.slice
  on systemctl stop kubelet
  on systemd-run --quiet --collect --unit foreign --slice "$slice" sleep 1000
  on systemctl set-property --runtime "$slice" MemoryMax=8M
  static_pod "$STATIC_UID"
  again on systemctl start kubelet
  timed "a pod runs in a slice that was there" 60 static_ready || wrong "the pod does not run in the slice that was there"
  is_memory "$slice" $((64 << 20)) || wrong "$slice has $(memory_of "$slice") as its memory limit"
  static_gone
  timed "it is removed with its pod" 60 no_slice "$slice" || wrong "$slice is left"
}

no_slice() { [[ -z $(on systemctl list-units --all --plain --no-legend --no-pager "$1") ]]; }

# A pod that is gone, while rubelet runs and while it is stopped.
leftovers() {
  local slice
  slice=kubepods-burstable-poddeadbeef_0000_4000_8000_000000000001.slice
  on systemd-run --quiet --collect --unit left1 --slice "$slice" sh -c 'trap "" TERM; while :; do sleep 1; done'
  timed "a leftover slice is ended and removed" 90 no_slice "$slice" || wrong "$slice is left"
  slice=kubepods-poddeadbeef_0000_4000_8000_000000000002.slice
  on systemctl stop kubelet
  on systemd-run --quiet --collect --unit left2 --slice "$slice" sh -c 'trap "" TERM; while :; do sleep 1; done'
  again on systemctl start kubelet
  timed "one from before the start, too" 60 no_slice "$slice" || wrong "$slice is left"
  [[ -z $(on systemctl list-units --plain --no-legend --no-pager --state=running left1 left2) ]] || wrong "its process runs"
}

# --- A process that cannot be killed ---

# Frozen in a hierarchy of its own, a process does not end by SIGKILL. With cgroup v2 there is no such process.
unkillable() {
  local uid slice
  if ! on test -d /sys/fs/cgroup/freezer; then
    measured "a process that cannot be killed" "not tried: cgroup v2"
    return 0
  fi
  limited 1
  uid=$(uids -l app=limited)
  slice=$(slice_of "$uid")
  on systemd-run --quiet --collect --unit frozen --slice "$slice" sleep 1000
  # shellcheck disable=SC2016
  on sh -c 'mkdir /sys/fs/cgroup/freezer/frozen
    systemctl show --property MainPID --value frozen >/sys/fs/cgroup/freezer/frozen/cgroup.procs
    echo FROZEN >/sys/fs/cgroup/freezer/frozen/freezer.state'
  k delete deployment limited --wait=false >/dev/null
  until_true 60 no_slot || wrong "the containers of the pod do not end"
  started others 5
  k delete deployment,configmap others --wait=false >/dev/null
  timed "others start and end meanwhile" 60 no_pods_of others || wrong "other pods do not end"
  ! no_slice "$slice" || wrong "the slice is gone, and its process runs"
  measured "said of it" "$(on journalctl -u kubelet -o cat --no-pager --since -2min | grep -F "$uid" | grep -ioE 'process.{0,60}' | tail -n 1)"
  on sh -c 'echo THAWED >/sys/fs/cgroup/freezer/frozen/freezer.state'
  timed "the slice is removed when the process ends" 90 no_slice "$slice" || wrong "$slice is left"
  until_true 60 no_pods_of limited || wrong "the pod is left"
  on rmdir /sys/fs/cgroup/freezer/frozen
}
no_slot() { [[ -z $(k get pods -l app=limited -o json | jq -r '.items[].status.containerStatuses[]? | select(.state.running) | .name') ]]; }

# --- Parts of the system that are missing ---

no_logind() {
  configure 'shutdownGracePeriod: 30s' 'shutdownGracePeriodCriticalPods: 10s'
  on systemctl mask --runtime --now systemd-logind 2>/dev/null
  again on systemctl restart kubelet
  pods_come_and_go "without logind"
  on journalctl -u kubelet -o cat --no-pager --since -2min | grep -q 'Shutdowns of the machine are not delayed' || wrong "the log does not say that shutdowns are not delayed"
  on systemctl unmask --runtime systemd-logind 2>/dev/null
  on systemctl start systemd-logind
  timed "logind is back: shutdowns are delayed" 120 has_lock || wrong "logind has no lock of the agent"
}
has_lock() { on systemd-inhibit --list --no-legend | grep -q '^kubelet .*shutdown.*delay'; }

no_dbus() {
  on systemctl stop dbus.socket dbus.service
  pods_come_and_go "without D-Bus"
  again on systemctl restart kubelet
  pods_come_and_go "after a restart without D-Bus"
  on systemctl start dbus.socket dbus.service
  timed "D-Bus is back: shutdowns are delayed" 120 has_lock || wrong "logind has no lock of the agent"
}

# `pods_come_and_go WHEN`
pods_come_and_go() {
  started others 3
  k delete deployment,configmap others --wait=false >/dev/null
  timed "$1: 3 pods end" 60 no_pods_of others || wrong "$1 pods do not end"
}

# Of its own size it would take half of the host's memory to fill it.
full_run() {
  local size
  size=$(on findmnt -nbo USED /run)
  on mount -o "remount,size=$((size + (1 << 20)))" /run
  on sh -c 'cat /dev/zero >/run/full 2>/dev/null; ! echo >/run/more 2>/dev/null' || wrong "/run is not full"
  deploy others 3 1 "$NODE"
  again on systemctl restart kubelet
  measured "a full /run: new pods" "$(k get pods -l app=others --no-headers | awk '{ print $3 }' | sort | uniq -c | awk '{ printf "%s%s %s", sep, $1, $2; sep = ", " }')"
  on rm /run/full
  on mount -o remount,size=20% /run
  timed "room again: they are ready" "$READY_SECONDS" rolled_out others 3 || wrong "pods do not start when there is room again"
  k delete deployment,configmap others --wait=false >/dev/null
  until_true 60 no_pods_of others || wrong "pods do not end"
}

main
