#!/usr/bin/env bash
# A cluster that kubeadm makes of machines:
#   cluster.sh up [N]        N machines (2): kubeadm init on node-1, kubeadm join on the others
#   cluster.sh init          kubeadm init on node-1, which is up
#   cluster.sh join NAME…    kubeadm join there
#   cluster.sh prepare NAME… kubeadm, the images and the agent only
#   cluster.sh down          removes all of it, as run.sh down
# NODE=upstream takes upstream's kubelet; DEB=FILE and RUBELET=PROGRAM choose a rubelet (agent.sh).
# kubectl works in node-1: tests/machine/run.sh exec node-1 -- kubectl get nodes
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

RUN=$MACHINE_DIR/run.sh
NODE=${NODE:-rubelet}
READY_SECONDS=120
usage="usage: cluster.sh up [N] | init | join NAME… | prepare NAME… | down"
# What kubeadm finds here and would not on a machine of its own: a kernel configuration that cannot be read and cgroup v1,
# swap and modules of the host.
IGNORED=SystemVerification,Swap,FileContent--proc-sys-net-bridge-bridge-nf-call-iptables

main() {
  local command=${1:-}
  (($#)) || die "$usage"
  shift
  case $command in
    up) up "${1:-2}" ;;
    init) init ;;
    join) join "$@" ;;
    prepare) prepare "$@" ;;
    down) "$RUN" down ;;
    *) die "$usage" ;;
  esac
}

up() {
  local names
  # Built first: a failure leaves no machine behind.
  "$MACHINE_DIR/images.sh" control-plane
  "$ENV_DIR/images.sh"
  step "$1 machines with systemd"
  "$RUN" up "$1"
  mapfile -t names < <(machines)
  step "kubeadm, images and $NODE in each of them"
  prepare "${names[@]}"
  step "kubeadm init on ${names[0]}"
  init
  ((${#names[@]} == 1)) || { step "kubeadm join on ${names[*]:1}" && join "${names[@]:1}"; }
  step "add-ons"
  addons
  kubectl get nodes,pods -A -o wide
}

kubectl() { enter node-1 env KUBECONFIG=/etc/kubernetes/admin.conf kubectl "$@"; }

# `prepare NAME…`: all at once.
prepare() {
  local name pids=() pid
  if [[ $NODE == rubelet && -z ${DEB:-} ]]; then
    OUT=$AT/package "$REPO/packaging/build.sh" >&2
    DEB=$(echo "$AT"/package/rubelet_*.deb)
  fi
  export DEB=${DEB:-}
  for name in "$@"; do
    prepare_one "$name" & pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid"
  done
}

prepare_one() {
  local bin image
  bin=$("$ENV_DIR/k8s-build.sh" kubeadm)
  "$RUN" put "$bin/kubeadm" "$1" /usr/bin/kubeadm
  echo "export KUBECONFIG=/etc/kubernetes/admin.conf" | enter "$1" sh -c 'cat >~/.profile'
  for image in "$CACHE"/kubeadm-images/*.tar "$CACHE"/images/*.tar; do
    # The control plane runs in the first machine only.
    [[ $1 == node-1 || $image != */@(kube-apiserver|kube-controller-manager|kube-scheduler|etcd).tar ]] || continue
    enter "$1" ctr -n k8s.io images import --local - <"$image" >/dev/null
  done
  "$MACHINE_DIR/agent.sh" "$NODE" "$1"
}

# Nothing but what this host needs: it has cgroup v1 and may have swap, and the limit of connections is the host's. The
# disk is the host's too, which may be nearly full of other things: shares of it would mean pressure, and no images.
configuration() {
  cat <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $(address node-1)}
nodeRegistration: {taints: []}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $1
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
evictionHard: {memory.available: 100Mi, nodefs.available: 200Mi, imagefs.available: 200Mi}
imageGCHighThresholdPercent: 100
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0, min: 0}
END
}

init() {
  local version
  version=$(enter node-1 kubeadm version -o short)
  configuration "$version" | enter node-1 sh -c 'cat >/root/kubeadm.yaml'
  logged node-1 kubeadm init --config /root/kubeadm.yaml --ignore-preflight-errors "$IGNORED"
  until_true "$READY_SECONDS" ready node-1 || not_ready node-1
}

join() {
  local name command
  command=$(enter node-1 env KUBECONFIG=/etc/kubernetes/admin.conf kubeadm token create --print-join-command)
  for name in "$@"; do
    # shellcheck disable=SC2086  # a command line
    logged "$name" $command --ignore-preflight-errors "$IGNORED"
  done
  for name in "$@"; do
    until_true "$READY_SECONDS" ready "$name" || not_ready "$name"
  done
}

# `logged NAME COMMAND…`
logged() {
  local log=$AT/$1/kubeadm.log
  if ! enter "$@" >>"$log" 2>&1; then
    tail -n 40 "$log" >&2
    enter "$1" journalctl -u kubelet -n 20 --no-pager >&2 || true
    die "$2 $3 fails on $1, see above; all of it is in $log"
  fi
}

ready() { [[ $(kubectl get node "$1" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) == True ]]; }
not_ready() {
  kubectl describe node "$1" >&2 || true
  enter "$1" journalctl -u kubelet -n 40 --no-pager >&2 || true
  die "$1 is not Ready after $READY_SECONDS s"
}

addons() {
  local name
  for name in daemonset/kube-proxy deployment/coredns; do
    if ! kubectl -n kube-system rollout status "$name" --timeout "${READY_SECONDS}s" >/dev/null; then
      kubectl get pods -A -o wide >&2
      die "$name does not come up within $READY_SECONDS s"
    fi
  done
}

main "$@"
