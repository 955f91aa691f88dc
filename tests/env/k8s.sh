#!/usr/bin/env bash
# A real Kubernetes control plane on loopback, any number beside each other:
#   k8s.sh start DIR   etcd, kube-apiserver, kube-controller-manager and kube-scheduler; prints where to reach them
#   k8s.sh stop DIR    stops them and removes everything, DIR included (a node first: node.sh stop DIR)
#   k8s.sh halt DIR    kills the API server and etcd, as a power cut would; the others keep running
#   k8s.sh resume DIR  starts the programs that are not running, on the existing data
#   AUDIT=1            with `start`: each request of a node goes to DIR/audit.log, a line of JSON each
# `start` on a directory in use stops the old cluster first. All may be run after any kind of crash.
#
# Below DIR:
#   env                      variables for scripts, to be sourced: NODE_NAME, PORT_KUBELET, PORT_HEALTHZ, KUBECONFIG, …
#   admin.conf, node.conf    kubeconfigs: cluster admin; the node's (system:node:NAME in system:nodes)
#   bootstrap-kubelet.conf   a kubeconfig with a bootstrap token, as kubeadm writes it, for TLS bootstrap
#   pki/                     ca, apiserver, sa, …; kubelet.crt and .key are for the node's own API
#   *.log                    of the programs
#   kubectl                  kubectl as admin of this cluster, as in: DIR/kubectl get pods -A
#
# The node is called node-N, and its name resolves to 127.0.0.1 through /etc/hosts while the cluster is up. Without
# kube-proxy, addresses of Services lead nowhere. The programs are those of k8s-build.sh.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/env/k8s-pki.sh
. "$ENV_DIR/k8s-pki.sh"
# shellcheck source=tests/env/containerd-stop.sh
. "$ENV_DIR/containerd-stop.sh"

usage="usage: k8s.sh start|stop|halt|resume DIR"
# Marks a directory that we may remove.
CLUSTER_MARK=.rubelet-k8s
# Each instance holds one slot: a file with its directory, whose number determines its ports and addresses.
SLOT=/run/rubelet-env.k8s
# Below the kernel's range for outgoing connections.
PORTS=21000 PORTS_EACH=20
# The API server requires an address that is not loopback, and finds one itself only with a default route.
NOWHERE=198.51.100.1
# The API server is up in five seconds on an idle machine.
START_SECONDS=120
bin='' slot=''

main() {
  [[ $# == 2 ]] || die "$usage"
  dir=$(realpath -m "$2")
  case $1 in
    start) start ;;
    stop) stop_cluster ;;
    halt) halt ;;
    resume) resume ;;
    *) die "$usage" ;;
  esac
}

start() {
  [[ $EUID == 0 ]] || die "a cluster with a node needs root"
  [[ $dir != *[[:space:]]* ]] || die "$dir: a path without spaces is needed"
  bin=$("$ENV_DIR/k8s-build.sh" kube-apiserver kube-controller-manager kube-scheduler)
  "$ENV_DIR/install.sh" cluster
  stop_cluster
  mkdir -p "$dir"
  touch "$dir/$CLUSTER_MARK"
  take_slot
  write_env
  read_env
  make_pki
  write_kubectl
  name_node
  run_all
  joining | "$dir/kubectl" apply -f - >/dev/null
  until_true 30 default_account || fail "the controller manager makes no service accounts"
  say "control plane     $url, logs in $dir"
  say "as admin          export KUBECONFIG=$dir/admin.conf, or $dir/kubectl"
  say "as node $node    $dir/node.conf"
  say "to join           $dir/bootstrap-kubelet.conf"
}

take_slot() {
  for slot in {1..99}; do
    [[ -e $SLOT.$slot && ! -e $(<"$SLOT.$slot")/$CLUSTER_MARK ]] && rm -f "$SLOT.$slot"
    (set -o noclobber && echo "$dir" >"$SLOT.$slot") 2>/dev/null || continue
    ports_free && return
    rm -f "$SLOT.$slot"
  done
  die "no free range of ports from $PORTS: see ss -ltn and $SLOT.*"
}

ports_free() {
  local first=$((PORTS + slot * PORTS_EACH))
  [[ -z $(ss -Hltn "sport >= :$first and sport < :$((first + PORTS_EACH))") ]]
}

write_env() {
  local port=$((PORTS + slot * PORTS_EACH))
  cat >"$dir/env" <<END
SLOT_NUMBER=$slot
NODE_NAME=node-$slot
CLUSTER_URL=https://127.0.0.1:$((port + 2))
SERVICE_RANGE=10.96.$slot.0/24
CLUSTER_DNS=10.96.$slot.10
CLUSTER_IP=10.96.$slot.1
PORT_ETCD=$port
PORT_ETCD_PEER=$((port + 1))
PORT_API=$((port + 2))
PORT_CONTROLLERS=$((port + 3))
PORT_SCHEDULER=$((port + 4))
PORT_KUBELET=$((port + 5))
PORT_HEALTHZ=$((port + 6))
PORT_KUBELET_READONLY=$((port + 7))
K8S_PROGRAMS=$bin
AUDIT=${AUDIT:-}
KUBECONFIG=$dir/admin.conf
END
}

# shellcheck disable=SC2034  # read by k8s-pki.sh
read_env() {
  # shellcheck source=/dev/null
  . "$dir/env"
  bin=$K8S_PROGRAMS node=$NODE_NAME url=$CLUSTER_URL service_ip=$CLUSTER_IP slot=$SLOT_NUMBER
}

write_kubectl() {
  cat >"$dir/kubectl" <<END
#!/bin/sh
exec "$CACHE/kubectl/usr/bin/kubectl" --kubeconfig "$dir/admin.conf" "\$@"
END
  chmod +x "$dir/kubectl"
}

# The file may be a mount, and is therefore written in place.
name_node() { with_hosts_lock edit_hosts "127.0.0.1 $node # rubelet:$dir"; }
forget_node() { with_hosts_lock edit_hosts ''; }
with_hosts_lock() { (exec 8>/run/rubelet-env.hosts && flock 8 && "$@"); }
edit_hosts() {
  local kept
  kept=$(grep -vE " # rubelet:$dir\$" /etc/hosts || true)
  printf '%s\n' "$kept" ${1:+"$1"} >/etc/hosts
}

run_all() {
  local audit=()
  if [[ -n $AUDIT ]]; then
    audit_policy >"$dir/audit.yaml"
    audit=(--audit-policy-file="$dir/audit.yaml" --audit-log-path="$dir/audit.log"
      --audit-log-maxsize=10000)
  fi
  run etcd "$CACHE/etcd/usr/bin/etcd" --data-dir="$dir/etcd" --unsafe-no-fsync --log-level=warn \
    --listen-client-urls="http://127.0.0.1:$PORT_ETCD" --advertise-client-urls="http://127.0.0.1:$PORT_ETCD" \
    --listen-peer-urls="http://127.0.0.1:$PORT_ETCD_PEER" \
    --initial-advertise-peer-urls="http://127.0.0.1:$PORT_ETCD_PEER" \
    --initial-cluster="default=http://127.0.0.1:$PORT_ETCD_PEER"
  run kube-apiserver "$bin/kube-apiserver" --cert-dir="$dir/apiserver" \
    --etcd-servers="http://127.0.0.1:$PORT_ETCD" --bind-address=127.0.0.1 --secure-port="$PORT_API" \
    --advertise-address="$NOWHERE" \
    --tls-cert-file="$dir/pki/apiserver.crt" --tls-private-key-file="$dir/pki/apiserver.key" \
    --client-ca-file="$dir/pki/ca.crt" --enable-bootstrap-token-auth --allow-privileged=true \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --service-cluster-ip-range="$SERVICE_RANGE" --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$dir/pki/sa.pub" --service-account-signing-key-file="$dir/pki/sa.key" \
    --kubelet-client-certificate="$dir/pki/apiserver-kubelet-client.crt" \
    --kubelet-client-key="$dir/pki/apiserver-kubelet-client.key" \
    --kubelet-certificate-authority="$dir/pki/ca.crt" --kubelet-preferred-address-types=InternalIP,Hostname \
    --requestheader-client-ca-file="$dir/pki/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client \
    --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group \
    --requestheader-username-headers=X-Remote-User --proxy-client-cert-file="$dir/pki/front-proxy-client.crt" \
    --proxy-client-key-file="$dir/pki/front-proxy-client.key" --profiling=false "${audit[@]}"
  until_true "$START_SECONDS" answers "$url/readyz" || fail "the API server is not ready after $START_SECONDS s"
  run kube-controller-manager "$bin/kube-controller-manager" --kubeconfig="$dir/controller-manager.conf" \
    --bind-address=127.0.0.1 --secure-port="$PORT_CONTROLLERS" --cert-dir="$dir/controllers" --leader-elect=false \
    --use-service-account-credentials=true --service-account-private-key-file="$dir/pki/sa.key" \
    --root-ca-file="$dir/pki/ca.crt" --cluster-signing-cert-file="$dir/pki/ca.crt" \
    --cluster-signing-key-file="$dir/pki/ca.key" --flex-volume-plugin-dir="$dir/volume-plugins" \
    --kube-api-qps=100 --kube-api-burst=200 --profiling=false
  run kube-scheduler "$bin/kube-scheduler" --kubeconfig="$dir/scheduler.conf" --bind-address=127.0.0.1 \
    --secure-port="$PORT_SCHEDULER" --cert-dir="$dir/scheduler" --leader-elect=false --kube-api-qps=200 \
    --kube-api-burst=400 --profiling=false
  until_true "$START_SECONDS" answers "https://127.0.0.1:$PORT_CONTROLLERS/healthz" ||
    fail "the controller manager is not healthy after $START_SECONDS s"
  until_true "$START_SECONDS" answers "https://127.0.0.1:$PORT_SCHEDULER/healthz" ||
    fail "the scheduler is not healthy after $START_SECONDS s"
}

audit_policy() {
  cat <<'END'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, userGroups: ["system:nodes"]}, {level: None}]
END
}

# `run NAME PROGRAM ARGUMENT…`: starts a program unless it is running. Its first argument names a path below DIR and
# identifies the process.
run() {
  local name=$1
  shift
  [[ -z $(pids_with_argument "$2") ]] || return 0
  # A separate session and a clean environment: proxies and the like of the caller must not affect the test.
  env -i HOME="$dir" PATH=/usr/sbin:/usr/bin:/sbin:/bin setsid "$@" </dev/null >>"$dir/$name.log" 2>&1 &
}

answers() { curl -sf --max-time 2 --noproxy '*' -k --cert "$dir/pki/admin.crt" --key "$dir/pki/admin.key" -o "$dir/answer" "$1"; }
default_account() { "$dir/kubectl" -n default get serviceaccount default >/dev/null 2>&1; }

# The first argument of each process, by which it is found.
marks() {
  local mark
  for mark in "$@"; do
    case $mark in
      etcd) echo "--data-dir=$dir/etcd" ;;
      apiserver) echo "--cert-dir=$dir/apiserver" ;;
      controllers) echo "--kubeconfig=$dir/controller-manager.conf" ;;
      scheduler) echo "--kubeconfig=$dir/scheduler.conf" ;;
    esac
  done
}

halt() {
  [[ -e $dir/$CLUSTER_MARK ]] || die "$dir is not the directory of a control plane"
  kill_marked apiserver etcd
}

resume() {
  [[ -e $dir/$CLUSTER_MARK ]] || die "$dir is not the directory of a control plane"
  read_env
  run_all
}

kill_marked() {
  local words
  mapfile -t words < <(marks "$@")
  # shellcheck disable=SC2046  # a list of words
  kill_hard $(pids_with_argument "${words[@]}")
}

stop_cluster() {
  if [[ -e $dir && ! -e $dir/$CLUSTER_MARK ]]; then
    [[ -z $(ls -A "$dir") ]] || die "$dir is not the directory of a control plane: not removed"
  fi
  kill_marked scheduler controllers apiserver etcd
  forget_node
  [[ ! -e $dir/env ]] || { read_env && rm -f "$SLOT.$slot"; }
  rm -rf --one-file-system "$dir"
}

# `fail WHAT`: prints the ends of the logs.
fail() {
  local log
  for log in "$dir"/*.log; do
    printf '%s\n' "--- end of $log" >&2
    tail -n 8 "$log" >&2
  done
  die "$1; the ends of the logs are above, all of them in $dir"
}

main "$@"
