#!/bin/bash
# Inside the virtual machine: pods that take what the node has, on cgroup v2. Each time the right pod has to end, and no other.
#   vm-pressure.sh PATIENCE AGENT ROUNDS LOAD…   AGENT is rubelet or upstream; LOAD is one of memory, two, processes, disk, inodes, oom
# A load begins when its file below GO exists. Times are in milliseconds.
set -euo pipefail
# shellcheck source=tests/machine/vm-inside.sh
. /vm/vm-inside.sh
PATIENCE=$1 AGENT=$2 ROUNDS=$3
shift 3
LOADS=("$@")
API=/var/lib/vm/api GO=/var/lib/vm/go
top=/sys/fs/cgroup/kubepods.slice
# Of memory. A load takes it at so many MiB a second: slowly, as everything is in emulation. Once all is taken, the kernel
# drops and reads again the pages of programs, and nobody gets anywhere.
THRESHOLD=$((400 << 20)) RATE=${RATE:-50}
# So many processes the machine allows, and so many are to be left: a load of a few hundred, since each takes its time here.
PROCESSES=4096 PROCESSES_LEFT=3300

main() {
  local load
  [[ $AGENT == upstream ]] || ln -s rubelet /usr/bin/kubelet
  set_up
  wait_for "the agent is active" kubelet_is active
  wait_for "the pod that is to stay runs" runs steady
  for load in "${LOADS[@]}"; do "try_$load"; done
  ! ended steady || fail "the pod that was to stay has ended"
  ok "the pod that was to stay has stayed"
}

set_up() {
  mkdir -p "$GO" /var/lib/kubelet
  touch "$GO/now"
  sysctl -q -w "kernel.pid_max=$PROCESSES"
  # A small disk of the node's own.
  truncate -s 256M /disk
  mkfs.ext4 -q -F -m 0 -N 4096 /disk
  mount -o loop /disk /var/lib/kubelet
  service_files
  # Everything the agent decides, with the time.
  sed -i 's/^KUBELET_EXTRA_ARGS=/&--v=4 /' /etc/default/kubelet
  cat >/var/lib/kubelet/config.yaml <<END2
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: systemd
failSwapOn: false
contentType: application/json
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "$THRESHOLD", nodefs.available: 10%, nodefs.inodesFree: 10%, pid.available: "$PROCESSES_LEFT"}
evictionPressureTransitionPeriod: 1s
enableServer: false
healthzPort: 0
END2
  # Above its request, but not by much, and of no higher priority than the loads.
  pod steady '["memory", "/go/now", "60", "500"]' '{"requests": {"memory": "32Mi"}}'
  local load n
  for load in "${LOADS[@]}"; do
    for ((n = 1; n <= ROUNDS; n++)); do "pods_$load" "$n"; done
  done
  start_services
}

# `pod NAME ARGUMENTS RESOURCES`
pod() {
  jq -cn --arg name "$1" --argjson arguments "$2" --argjson resources "${3:-{\}}" --arg go "$GO" '{
    apiVersion: "v1", kind: "Pod",
    metadata: {name: $name, namespace: "default", uid: "\($name)-1234", resourceVersion: "1", creationTimestamp: "2024-01-01T00:00:00Z"},
    spec: {
      nodeName: "vm", priority: 0, terminationGracePeriodSeconds: 30, enableServiceLinks: false, hostNetwork: true,
      restartPolicy: "Never", automountServiceAccountToken: false, dnsPolicy: "Default",
      containers: [{
        name: "main", image: "rubelet.test/busybox:1", imagePullPolicy: "Never", resources: $resources,
        command: (["/load/pressure"] + $arguments),
        volumeMounts: [{name: "load", mountPath: "/load", readOnly: true}, {name: "go", mountPath: "/go", readOnly: true},
          {name: "scratch", mountPath: "/scratch"}]}],
      volumes: [{name: "load", hostPath: {path: "/vm"}}, {name: "go", hostPath: {path: $go}}, {name: "scratch", emptyDir: {}}]}}' \
    >"$API/pods/$1.json"
}

# What the API server was sent of a pod.
phases() { grep -o '"phase":"[A-Za-z]*"' "$API/statuses/$1" 2>/dev/null | cut -d '"' -f 4 | paste -sd ,; }
runs() { [[ $(phases "$1") == *Running* ]]; }
ended() { [[ $(phases "$1") == *Failed* ]]; }
evicted() { grep -q '"reason":"Evicted"' "$API/statuses/$1" 2>/dev/null; }

# `main_process POD ARGUMENT`: as the machine numbers it. Of a load with many processes, the oldest.
main_process() { pgrep -o -f "^/load/pressure $2 /go/$1( |\$)"; }

# `times POD WHAT`: from the log of its container.
said() { sed -n "s/^[^ ]* stdout F $2 //p" /var/log/pods/default_"$1"_*/main/0.log 2>/dev/null | head -n 1; }

# `of FILE WHAT`
of() { sed -n "s/^$2 //p" "$1"; }

# `less A B`: A - B, a whole number of milliseconds
less() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.0f", a - b }'; }

pods_memory() { pod "memory-$1" '["memory", "/go/memory-'"$1"'", "1700", "'"$RATE"'"]'; }

try_memory() {
  local n name seen
  for ((n = 1; n <= ROUNDS; n++)); do
    name=memory-$n seen=/var/lib/vm/$name
    wait_for "$name runs" runs "$name"
    /vm/pressure watch "$(main_process "$name" memory)" "$THRESHOLD" >"$seen" &
    touch "$GO/$name"
    wait_for "$name was evicted" evicted "$name"
    wait $!
    others "$name"
    echo "result: memory: asked to end $(less "$(said "$name" term)" "$(of "$seen" crossed)") ms after the threshold was crossed," \
      "killed after $(less "$(of "$seen" ended)" "$(of "$seen" crossed)") ms," \
      "relieved after $(less "$(of "$seen" relieved)" "$(of "$seen" crossed)") ms, at least $(($(of "$seen" least | cut -d. -f1) >> 20)) MiB were left"
    # With the same clock, so that the agent's share can be told from the runtime's.
    echo "crossed at $(of "$seen" crossed)"
    journalctl --no-pager -q -o short-monotonic -u kubelet | grep -iE "fills up|short of|evict" | cut -c1-160 | tail -n 12 || true
  done
}

# `others NAME…`: no other pod was evicted because of these.
others() {
  local one name
  for one in "$API"/statuses/*; do
    name=${one##*/}
    [[ ! -e $GO/$name ]] || continue
    ! evicted "$name" || fail "$name was evicted, too: $(cat "$one")"
  done
  ok "no other pod was evicted"
}

# Two that take memory at once: the larger ends, and then there is enough.
pods_two() {
  pod "two-$1-small" '["memory", "/go/two-'"$1"'-small", "400", "'$((RATE / 2))'"]'
  pod "two-$1-large" '["memory", "/go/two-'"$1"'-large", "1300", "'"$RATE"'"]'
}

try_two() {
  local n
  for ((n = 1; n <= ROUNDS; n++)); do
    wait_for "two-$n-small runs" runs "two-$n-small"
    wait_for "two-$n-large runs" runs "two-$n-large"
    touch "$GO/two-$n-small" "$GO/two-$n-large"
    wait_for "the larger was evicted" evicted "two-$n-large"
    sleep 5
    ! evicted "two-$n-small" || fail "the smaller was evicted, too"
    ok "the smaller was not"
    # For the next round.
    kill -KILL "$(main_process "two-$n-small" memory)"
  done
}

pods_processes() { pod "processes-$1" '["processes", "/go/processes-'"$1"'", "900"]'; }
try_processes() { each_evicted processes; }
pods_disk() { pod "disk-$1" '["disk", "/go/disk-'"$1"'", "/scratch/file", "230"]'; }
try_disk() { each_evicted disk; }
pods_inodes() { pod "inodes-$1" '["inodes", "/go/inodes-'"$1"'", "/scratch", "5000"]'; }
try_inodes() { each_evicted inodes; }

each_evicted() {
  local n name
  for ((n = 1; n <= ROUNDS; n++)); do
    name=$1-$n
    wait_for "$name runs" runs "$name"
    touch "$GO/$name"
    wait_for "$name was evicted" evicted "$name"
    others "$name"
    echo "result: $1: asked to end $(less "$(said "$name" term)" "$(said "$name" begins)") ms after it began," \
      "$(said "$name" holds | grep -q . && echo "it had taken all" || echo "it was still taking")"
    sleep 2
  done
}

# A container above its own limit: the kernel ends all its processes, and the node is short of nothing.
pods_oom() { pod "oom-$1" '["memory", "/go/oom-'"$1"'", "200", "500"]' '{"limits": {"memory": "64Mi"}}'; }

try_oom() {
  local n name slice scope
  for ((n = 1; n <= ROUNDS; n++)); do
    name=oom-$n
    wait_for "$name runs" runs "$name"
    slice=$top/kubepods-burstable.slice/kubepods-burstable-pod${name//-/_}_1234.slice
    scope=$(limited_scope "$slice")
    check_file "$scope/memory.oom.group" 1
    # Without the gate MemoryQoS.
    check_file "$scope/memory.min" 0
    check_file "$scope/memory.low" 0
    check_file "$scope/memory.high" max
    touch "$GO/$name"
    wait_for "$name has failed" ended "$name"
    grep -q '"reason":"OOMKilled"' "$API/statuses/$name" || fail "no status says why: $(cat "$API/statuses/$name")"
    ! evicted "$name" || fail "it was evicted"
    ok "its container is OOMKilled"
  done
}

main
