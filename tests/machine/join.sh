#!/usr/bin/env bash
# A pod with limits on a node that kubeadm joined, on the systemd driver, from its start to its complete removal; meanwhile
# the node's service is restarted. `join.sh NAME`, for a cluster of cluster.sh
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

node=$1
SECONDS_TO_RUN=60
# Longer than several periods of its readiness probe, and than what a status waits for before it is written.
SETTLE=12

main() {
  step "a pod with limits on $node"
  pod | kubectl apply -f - >/dev/null
  kubectl wait pod/limited --for=condition=Ready --timeout="${SECONDS_TO_RUN}s" >/dev/null || fail "the pod is not ready after $SECONDS_TO_RUN s"
  uid=$(of_pod .metadata.uid)
  container=$(of_pod '.status.containerStatuses[0].containerID')
  slices
  log_and_exec
  status_line
  restart
  log_and_exec
  removal
}

kubectl() { enter node-1 env KUBECONFIG=/etc/kubernetes/admin.conf kubectl "$@"; }
of_pod() { kubectl get pod limited -o jsonpath="{$1}"; }
ok() { say "    ok: $*"; }

fail() {
  kubectl get pods -A -o wide >&2 || true
  kubectl describe pod limited >&2 || true
  enter "$node" systemctl status kubelet --no-pager -n 30 >&2 || true
  die "$*"
}

# `expect WHAT ACTUAL EXPECTED`
expect() {
  [[ $2 == "$3" ]] || fail "$1: $2, and it should be $3"
  ok "$1: $2"
}

# `wait_for SECONDS WHAT COMMAND…`
wait_for() {
  until_true "$1" "${@:3}" || fail "$2: not within $1 s"
  ok "$2"
}

# Bound to the node by its name: the scheduler is not what is tested. The shell writes nothing after its first line.
pod() {
  cat <<END
apiVersion: v1
kind: Pod
metadata: {name: limited}
spec:
  nodeName: $node
  terminationGracePeriodSeconds: 2
  containers:
    - name: main
      image: rubelet.test/busybox:1
      command: [sh, -c, "trap 'exit 0' TERM; echo the pod has begun; while :; do sleep 1; done"]
      readinessProbe: {exec: {command: ["true"]}, periodSeconds: 2, timeoutSeconds: 10}
      resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {cpu: 500m, memory: 64Mi}}
END
}

# systemd knows the pod's slice and the container's scope in it, and the kernel has the pod's values in both.
slices() {
  local slice=kubepods-burstable-pod${uid//-/_}.slice scope at
  scope=cri-containerd-${container#containerd://}.scope
  expect "state of the pod's slice" "$(unit "$slice" ActiveState)" active
  expect "slice of the container's scope" "$(unit "$scope" Slice)" "$slice"
  at=kubepods.slice/kubepods-burstable.slice/$slice
  values "the pod's slice" "$at"
  values "the container's scope" "$at/$scope"
}

# `unit UNIT PROPERTY`
unit() { enter "$node" systemctl show --value -p "$2" "$1"; }

# `values WHAT PATH`: 500m are 50 of 100 ms, 100m are 102 of 1024 shares. How shares become the weight of cgroup v2 is systemd's
# and runc's matter.
values() {
  if [[ $(stat -fc %T /sys/fs/cgroup) == cgroup2fs ]]; then
    expect "memory.max of $1" "$(enter "$node" cat "/sys/fs/cgroup/$2/memory.max")" $((64 << 20))
    expect "cpu.max of $1" "$(enter "$node" cat "/sys/fs/cgroup/$2/cpu.max")" "50000 100000"
  else
    expect "memory.limit_in_bytes of $1" "$(enter "$node" cat "/sys/fs/cgroup/memory/$2/memory.limit_in_bytes")" $((64 << 20))
    expect "cpu.cfs_quota_us of $1" "$(enter "$node" cat "/sys/fs/cgroup/cpu/$2/cpu.cfs_quota_us")" 50000
    expect "cpu.shares of $1" "$(enter "$node" cat "/sys/fs/cgroup/cpu/$2/cpu.shares")" 102
  fi
}

# Through the API server, to the node's own API with the certificate that the node was given.
log_and_exec() {
  expect "kubectl logs" "$(kubectl logs limited)" "the pod has begun"
  expect "kubectl exec" "$(kubectl exec limited -- hostname)" limited
}

# The pod and kube-proxy's.
status_line() {
  wait_for 30 "systemctl status kubelet: 2 pods run, 0 wait" has_line
}
has_line() { [[ $(enter "$node" systemctl status --no-pager -n 0 kubelet) == *'Status: "2 pods run, 0 wait'* ]]; }

# The agent starts anew under its pods. Nothing is written about them, since nothing has changed: each write, such as one of
# readiness, would give a pod another resourceVersion.
restart() {
  local before agent renewed
  until_true 30 calm || fail "the pods of $node do not come to rest"
  before=$(pods)
  agent=$(unit kubelet MainPID) renewed=$(lease)
  enter "$node" systemctl restart kubelet
  [[ $(unit kubelet MainPID) != "$agent" ]] || fail "systemctl restart did not replace the agent"
  wait_for 60 "the node's lease is renewed after systemctl restart kubelet" lease_renewed "$renewed"
  status_line
  sleep "$SETTLE"
  diff <(echo "$before") <(pods) >&2 || fail "systemctl restart kubelet changed these pods"
  ok "no container, no readiness and no status has changed"
}

# Identity, version, and of each container identity, restarts and readiness.
pods() {
  kubectl get pods -A --field-selector "spec.nodeName=$node" -o json | jq -c '.items[] | [.metadata.name, .metadata.uid,
    .metadata.resourceVersion, (.status.containerStatuses[] | .containerID, .restartCount, .ready)]'
}
calm() {
  local first
  first=$(pods)
  sleep 3
  [[ $(pods) == "$first" ]]
}
lease() { kubectl -n kube-node-lease get lease "$node" -o jsonpath='{.spec.renewTime}'; }
lease_renewed() { [[ $(lease) != "$1" ]]; }

removal() {
  kubectl delete pod limited --timeout="${SECONDS_TO_RUN}s" >/dev/null || fail "the pod is not deleted after $SECONDS_TO_RUN s"
  wait_for 30 "neither slice nor scope of the pod is left" nothing_left
}
nothing_left() {
  [[ -z $(enter "$node" systemctl list-units --all --plain --no-legend "*${uid//-/_}*" "*${container#containerd://}*") ]] &&
    [[ -z $(enter "$node" find /sys/fs/cgroup -name "*${uid//-/_}*") ]]
}

main
