#!/bin/bash
# Inside the virtual machine: the systemd driver and a reboot, on cgroup v2. BOOT is the number of the boot.
#   vm-node.sh PATIENCE
# First boot: the tests of the kernel and of systemd that crates/linux has; then containerd and rubelet as services with a
# static pod, a critical static pod and a pod of an API server; then a reboot. Second boot: what the shutdown left.
set -euo pipefail
# shellcheck source=tests/machine/vm-inside.sh
. /vm/vm-inside.sh
PATIENCE=$1
API=/var/lib/vm/api ORDER=/var/lib/vm/order DURING=/var/lib/vm/during
top=/sys/fs/cgroup/kubepods.slice

main() {
  case $BOOT in
    1) first ;;
    2) second ;;
    *) fail "the machine booted $BOOT times" ;;
  esac
}

first() {
  kernel_tests
  set_up
  start_node
  values
  swap
  shutdown
}

kernel_tests() {
  # systemd and its bus are replaced under full load in the machines that share the host's kernel.
  RUBELET_SYSTEMD_MACHINE=1 RUBELET_LOGIND_TESTS=1 /vm/linux-tests --test-threads 1 node_systemd_ a_real_login_manager \
    --skip may_be_replaced_meanwhile || fail "the tests of crates/linux"
  rm -f /etc/systemd/logind.conf.d/99-kubelet.conf
  systemctl restart systemd-logind
}

set_up() {
  fallocate -l 256M /swap
  chmod 600 /swap
  mkswap -q /swap
  printf '/swap none swap sw 0 0\n' >>/etc/fstab
  swapon /swap
  ln -s rubelet /usr/bin/kubelet
  mkdir -p /etc/kubernetes/manifests "$API"/{pods,statuses} "$ORDER"
  touch "$ORDER/log"
  files
  start_services
}

files() {
  service_files
  cat >/var/lib/kubelet/config.yaml <<'END'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /etc/kubernetes/manifests
fileCheckFrequency: 1s
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: systemd
podPidsLimit: 64
failSwapOn: false
imageGCHighThresholdPercent: 100
memorySwap: {swapBehavior: LimitedSwap}
shutdownGracePeriod: 40s
shutdownGracePeriodCriticalPods: 15s
enableServer: false
healthzPort: 0
END
  manifest app 0 '{"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1500m", "memory": "128Mi"}}' 1 \
    >/etc/kubernetes/manifests/app.json
  manifest critical 2000001000 '{}' 3 >/etc/kubernetes/manifests/critical.json
  manifest swap 0 '{"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}}' 0 >"$API/pods/swap.json"
}

# `manifest NAME PRIORITY RESOURCES SECONDS`: a pod that writes when it is stopped, and again the seconds later. It holds
# memory that can only go to swap. One pod is enough to try the network.
manifest() {
  jq -cn --arg name "$1" --argjson priority "$2" --argjson resources "$3" --arg seconds "$4" --arg order "$ORDER" '{
    apiVersion: "v1", kind: "Pod",
    metadata: {name: $name, namespace: "default", uid: "\($name)-1234", resourceVersion: "1", creationTimestamp: "2024-01-01T00:00:00Z"},
    spec: {
      nodeName: "vm", priority: $priority, terminationGracePeriodSeconds: 30, enableServiceLinks: false, hostNetwork: ($name != "app"),
      restartPolicy: "Always", automountServiceAccountToken: false,
      containers: [{
        name: "main", image: "rubelet.test/busybox:1", imagePullPolicy: "Never", resources: $resources,
        command: ["sh", "-c", "x=$(head -c 12000000 /dev/zero | tr \"\\\\0\" x); trap \"echo $0 stops >>/order/log; sleep $1; echo $0 ends >>/order/log; exit 0\" TERM; while :; do sleep 1; done", $name, $seconds],
        volumeMounts: [{name: "order", mountPath: "/order"}]}],
      volumes: [{name: "order", hostPath: {path: $order}}]}}'
}

start_node() {
  wait_for "the unit is active: rubelet has sent READY=1" kubelet_is active
  wait_for "the static pod runs" is_running app-vm
  wait_for "the critical static pod runs" is_running critical-vm
  wait_for "the pod of the API server runs" is_running swap
}

# `pod_slice CLASS POD`
pod_slice() { echo "$top/kubepods-$1.slice/kubepods-$1-pod$2_1234.slice"; }

total() { awk -v name="$1:" '$1 == name {printf "%d", $2 * 1024}' /proc/meminfo; }

# CG-01, CG-05, CG-10, CG-11, CG-12, CG-21; RT-93, RT-94.
values() {
  local app scope file
  app=$(pod_slice burstable app)
  check_file "$app/cpu.weight" 4
  check_file "$app/cpu.max" "150000 100000"
  check_file "$app/memory.max" 134217728
  check_file "$app/pids.max" 64
  check_unit "${app##*/}" CPUWeight 4
  check_unit "${app##*/}" CPUQuotaPerSecUSec 1.5s
  check_unit "${app##*/}" MemoryMax 134217728
  check_unit "${app##*/}" TasksMax 64
  check_file $top/kubepods-burstable.slice/cpu.weight 4
  check_file $top/kubepods-besteffort.slice/cpu.weight 1
  check_file $top/memory.max "$(total MemTotal)"
  check_file "$(pod_slice besteffort critical)/cpu.weight" 1
  check_file "$(pod_slice besteffort critical)/memory.max" max

  scope=$(limited_scope "$app")
  check_file "$scope/cpu.max" "150000 100000"
  check_file "$scope/memory.max" 134217728
  check_file "$scope/memory.oom.group" 1
  # Static pods are critical, and those never swap.
  check_file "$scope/memory.swap.max" 0
  for file in cpu memory io; do
    grep -q '^some avg10=' "$app/$file.pressure" || fail "$app/$file.pressure cannot be read"
    ok "$app/$file.pressure can be read"
  done

  systemctl daemon-reexec
  check_file "$app/cpu.max" "150000 100000"
  check_file "$app/memory.max" 134217728
  check_file "$app/pids.max" 64
  check_file "$scope/memory.oom.group" 1
}

# RT-94: the container's share of the node's swap is its share of the node's memory, in whole pages.
swap() {
  local may mayno share
  may=$(limited_scope "$(pod_slice burstable swap)") mayno=$(limited_scope "$(pod_slice burstable app)")
  share=$((67108864 * $(total SwapTotal) / $(total MemTotal)))
  check_file "$may/memory.swap.max" $((share - share % 4096))
  # The kernel answers with an error if it gets less back than it was asked for.
  echo 8M >"$may/memory.reclaim" || true
  echo 8M >"$mayno/memory.reclaim" || true
  (($(cat "$may/memory.swap.current") > 0)) || fail "nothing of the pod is in the swap"
  ok "$(cat "$may/memory.swap.current") bytes of the pod are in the swap"
  check_file "$mayno/memory.swap.current" 0
}

# SHUT-01. From here on the machine is going down; systemd ends this script.
shutdown() {
  local granted
  wait_for "rubelet delays a shutdown" holds_a_delay
  granted=$(busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager InhibitDelayMaxUSec)
  check "the longest delay" "t 40000000" "$granted"
  SECONDS=0
  systemctl reboot
  while ((SECONDS < PATIENCE)); do
    kubelet pods >>"$DURING" 2>&1 || true
    sleep 0.3
  done
  fail "the machine does not go down"
}

holds_a_delay() { systemd-inhibit --list --no-legend --no-pager | grep -qE '^kubelet .* shutdown .* delay *$'; }

second() {
  local before="journalctl --no-pager -q -o cat -b -1" end
  # SHUT-02: those of low priority first, the others once those have ended.
  check "the last in order" "critical stops critical ends" "$(tail -n 2 $ORDER/log | xargs)"
  check "all that ended" "app ends,critical ends,swap ends" "$(grep ends $ORDER/log | sort | paste -sd ,)"
  # SHUT-03: the status is with the API server before the power goes, and the node's own commands show it.
  jq -se 'map(.status // {}) | any(.phase == "Failed" and .reason == "Terminated")' "$API/statuses/swap" >/dev/null ||
    fail "no status says that the shutdown ended the pod: $(cat "$API/statuses/swap")"
  ok "the API server has the status"
  grep -qE "app-vm .*(Failed|Terminated)" "$DURING" || fail "while the machine went down: $(cat "$DURING")"
  ok "rubelet pods has the status"
  # The lock was released: the machine went down before the time was over.
  $before -u kubelet | grep -q 'the machine may go down' || fail "the lock was not released: $($before -u kubelet | tail -n 30)"
  ! $before -u systemd-logind | grep -i 'inhibitor timeout' || fail "the lock was held for too long"
  ok "the lock was released in time"
  # SHUT-04
  jq -e '.startTime < .endTime' /var/lib/kubelet/graceful_node_shutdown_state >/dev/null ||
    fail "the record: $(cat /var/lib/kubelet/graceful_node_shutdown_state)"
  ok "the times are recorded"

  start_again
  priorities
}

start_again() {
  wait_for "the unit is active again" kubelet_is active
  wait_for "the static pod runs again" is_running app-vm
  wait_for "the critical static pod runs again" is_running critical-vm
  wait_for "rubelet delays a shutdown again" holds_a_delay
  ! is_running swap || fail "a pod that failed runs again"
  [[ ! -e $(pod_slice burstable swap) ]] || fail "the slice of a pod that failed is there"
  ok "the failed pod is left to its controller"
  check_file "$(pod_slice burstable app)/memory.max" 134217728
}

# Messages of the program, of both boots: journald has their priorities, and no message still begins with its own.
priorities() {
  local journal=/var/lib/vm/journal
  journalctl --no-pager -q -o json _SYSTEMD_UNIT=kubelet.service >"$journal"
  jq -se 'all(.[]; .MESSAGE | tostring | startswith("<") | not)' "$journal" >/dev/null || fail "a message begins with its priority"
  jq -se 'map(select(.MESSAGE | tostring | contains("Following shutdowns of the machine")) | .PRIORITY) | unique == ["6"]' \
    "$journal" >/dev/null || fail "an information has another priority"
  jq -se 'any(.[]; .PRIORITY == "4")' "$journal" >/dev/null || fail "no message is a warning"
  ok "the journal has the priorities of messages"
}

main
