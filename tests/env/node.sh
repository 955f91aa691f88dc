#!/usr/bin/env bash
# A node of the control plane that k8s.sh has started in DIR: a private containerd 2.1 and an agent.
#   node.sh start AGENT DIR      containerd, then the agent; waits until the node is Ready
#   node.sh agent AGENT DIR      the agent alone, with the existing containerd, files and pods
#   node.sh quit DIR [SIGNAL]    stops the agent alone, by SIGTERM unless SIGNAL is given; its pods keep running
#   node.sh stop DIR             stops agent, pods and containerd, and removes everything they left
# AGENT is rubelet or upstream (Kubernetes' own kubelet, of k8s-build.sh). Both get the same flags and the same file.
#   RUBELET=PROGRAM      a rubelet that is already built; else cargo builds one of the profile NODE_PROFILE (dev)
#   JOIN=token           by TLS bootstrap with DIR/bootstrap-kubelet.conf, not with the certificate in DIR/node.conf
#   NODE_TLS=bootstrap   the serving certificate by a CSR, to be approved by hand, not the one in DIR/pki
#   NODE_CONFIG=FILE     lines to add to the KubeletConfiguration
#   NODE_FLAGS="…"       flags to add
#   E2E_IMAGES=0         without the images of upstream's e2e suite
# Below DIR: containerd/ (containerd.sock, containerd.log), config.yaml, agent.log, kubelet/ (the root directory),
# pod-logs/, manifests/ (static pods), kubelet.conf (the agent's kubeconfig), disk.ext4 (a disk of the node's own, with its root
# directory, its logs and containerd's data, so that upstream's default thresholds of eviction hold).
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/env/cgroup.sh
. "$ENV_DIR/cgroup.sh"
# shellcheck source=tests/env/k8s-pki.sh
. "$ENV_DIR/k8s-pki.sh"
# shellcheck source=tests/env/containerd-stop.sh
. "$ENV_DIR/containerd-stop.sh"
# shellcheck source=tests/env/node-disk.sh
. "$ENV_DIR/node-disk.sh"

usage="usage: node.sh start|agent AGENT DIR | node.sh quit DIR [SIGNAL] | node.sh stop DIR"
CONTAINERD=2.1
READY_SECONDS=90
# The agents change these for the whole machine, as a node should; the last agent to stop restores them.
KERNEL=(vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes)
KERNEL_WAS=/run/rubelet-env.kernel
disk=''

main() {
  case ${1:-} in
    start | agent)
      [[ $# == 3 ]] || die "$usage"
      open_cluster "$3"
      "$1_node" "$2"
      ;;
    quit)
      [[ $# == 2 || $# == 3 ]] || die "$usage"
      open_cluster "$2"
      quit_node "${3:-TERM}"
      ;;
    stop)
      [[ $# == 2 ]] || die "$usage"
      [[ -e $2/env ]] || exit 0
      open_cluster "$2"
      stop_node
      ;;
    *) die "$usage" ;;
  esac
}

open_cluster() {
  cluster=$(realpath -m "$1")
  [[ -e $cluster/env ]] || die "$cluster has no control plane: tests/env/k8s.sh start $cluster"
  # shellcheck source=/dev/null
  . "$cluster/env"
  cgroup=rubelet-node.$SLOT_NUMBER
}

start_node() {
  "$ENV_DIR/images.sh"
  stop_node
  remember_kernel
  take_disk
  ROOT_AT=${disk:+$disk/containerd} "$ENV_DIR/containerd.sh" start "$CONTAINERD" "$cluster/containerd"
  [[ ${E2E_IMAGES:-1} == 0 ]] || import_images
  each_hierarchy make_cgroup "$cgroup"
  mkdir -p "$cluster"/{kubelet,pod-logs,manifests}
  echo 'nameserver 127.0.0.53' >"$cluster/resolv.conf"
  config >"$cluster/config.yaml"
  serving_certificate
  if [[ ${JOIN:-} != token ]]; then cp "$cluster/node.conf" "$cluster/kubelet.conf"; fi
  agent_node "$1"
  until_true "$READY_SECONDS" ready_or_dead || true
  node_ready || fail "the node is not Ready after $READY_SECONDS s"
  say "node              $NODE_NAME, $1, log in $cluster/agent.log"
  say "containerd        $cluster/containerd/containerd.sock"
}

# Sets `disk`: empty if the machine gives none.
take_disk() {
  disk=$cluster/disk
  make_node_disk "$cluster" kubelet pod-logs && return
  disk=''
  warn "no loop device can be had: the node is on this machine's disk, and looks at its memory alone"
}

import_images() {
  local image
  "$ENV_DIR/e2e-images.sh"
  for image in "$CACHE"/e2e-images/*.tar; do
    "$CACHE/containerd-$CONTAINERD/usr/bin/ctr" -a "$cluster/containerd/containerd.sock" -n k8s.io \
      images import "$image" >/dev/null
  done
}

# As kubeadm writes it, with additions for a test machine: everything below DIR, cgroup v1 allowed.
config() {
  cat <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: $cluster/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: cgroupfs
clusterDNS: [$CLUSTER_DNS]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://$cluster/containerd/containerd.sock
healthzBindAddress: 127.0.0.1
healthzPort: $PORT_HEALTHZ
rotateCertificates: true
staticPodPath: $cluster/manifests
# Our own additions start here.
port: $PORT_KUBELET
$(serving)
cgroupRoot: /$cgroup
failCgroupV1: false
failSwapOn: false
resolvConf: $cluster/resolv.conf
podLogsDir: $cluster/pod-logs
volumePluginDir: $cluster/volume-plugins
fileCheckFrequency: 1s
serializeImagePulls: false
maxParallelImagePulls: 4
$(thresholds)
END
  [[ -z ${NODE_CONFIG:-} ]] || cat "$NODE_CONFIG"
}

# Upstream's defaults, on a disk of the node's own.
thresholds() {
  [[ -z $disk ]] || return 0
  cat <<'END'
# The images cannot be pulled again, and the disk is shared with other work.
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: 100Mi
  imagefs.available: 0%
  nodefs.available: 0%
  nodefs.inodesFree: 0%
END
}

serving() {
  if [[ ${NODE_TLS:-} == bootstrap ]]; then
    echo "serverTLSBootstrap: true"
  else
    printf '%s\n' "tlsCertFile: $cluster/pki/kubelet.crt" "tlsPrivateKeyFile: $cluster/pki/kubelet.key"
  fi
}

# A certificate for the node's current address.
serving_certificate() {
  dir=$cluster
  server kubelet "system:node:$NODE_NAME/O=system:nodes" "IP:$(bridge_address),IP:127.0.0.1,DNS:$NODE_NAME"
}

agent_node() {
  local program flags=(--config "$cluster/config.yaml" --kubeconfig "$cluster/kubelet.conf" --root-dir "$cluster/kubelet"
    --hostname-override "$NODE_NAME" --node-ip "$(bridge_address)" --cert-dir "$cluster/kubelet/pki" --v=2)
  [[ ${JOIN:-} != token ]] || flags+=(--bootstrap-kubeconfig "$cluster/bootstrap-kubelet.conf")
  program=$(program_of "$1")
  [[ -z $(agent_pids) ]] || die "an agent runs already in $cluster: node.sh quit $cluster"
  # shellcheck disable=SC2206  # a list of words
  flags+=(${NODE_FLAGS:-})
  # In the background: the agent outlives this script.
  env -i HOME="$cluster" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${RUST_BACKTRACE:+RUST_BACKTRACE=$RUST_BACKTRACE} \
    setsid "$program" "${flags[@]}" </dev/null >>"$cluster/agent.log" 2>&1 &
  agent=$!
}

program_of() {
  case $1 in
    upstream) echo "$(K8S_BIN=${K8S_BIN:-} "$ENV_DIR/k8s-build.sh" kubelet)/kubelet" ;;
    rubelet) "$ENV_DIR/rubelet.sh" ;;
    *) die "no such agent: $1 (rubelet, upstream)" ;;
  esac
}

# The host's address on the bridge of the pods: it exists on any machine, is reachable from here only, and is not
# loopback, which a kubelet refuses for its node and the API server refuses to proxy to.
bridge_address() {
  local name
  name=$(bridges_of "$cluster/containerd")
  [[ -n $name ]] || die "$cluster has no containerd: node.sh start"
  ip -j -4 addr show dev "$name" | jq -r '.[0].addr_info[0].local'
}

agent_pids() { pids_with_argument "$cluster/config.yaml"; }
no_agent() { [[ -z $(agent_pids) ]]; }
node_ready() { [[ $("$cluster/kubectl" get node "$NODE_NAME" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) == True ]]; }
# By PID: on a busy machine the agent may not have been executed yet, and its arguments cannot be found.
ready_or_dead() { node_ready || ! kill -0 "$agent" 2>/dev/null; }

quit_node() {
  local pids
  pids=$(agent_pids)
  [[ -n $pids ]] || return 0
  # shellcheck disable=SC2086  # a list of words
  kill -s "$1" $pids 2>/dev/null || true
  if ! until_true 20 no_agent; then
    warn "the agent does not end by SIG$1"
    # shellcheck disable=SC2046  # a list of words
    kill_hard $(agent_pids)
  fi
}

stop_node() {
  quit_node KILL
  [[ ! -e $cluster/containerd ]] || "$ENV_DIR/containerd.sh" stop "$cluster/containerd"
  dir=$cluster
  unmount_below
  # An interrupted runtime may have lost track of a process.
  # shellcheck disable=SC2046  # a list of words
  kill_hard $(find /sys/fs/cgroup -path "*/$cgroup/*" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u)
  each_hierarchy remove_cgroup "$cgroup"
  find /var/log/containers -lname "$cluster/*" -delete 2>/dev/null || true
  rm -rf --one-file-system "$cluster"/{kubelet,pod-logs,disk,disk.ext4,manifests,volume-plugins,config.yaml,kubelet.conf,resolv.conf}
  timeout 10 "$cluster/kubectl" delete node "$NODE_NAME" --ignore-not-found >/dev/null 2>&1 || true
  restore_kernel
}

remember_kernel() { [[ -e $KERNEL_WAS ]] || sysctl -e "${KERNEL[@]}" >"$KERNEL_WAS" 2>/dev/null || true; }

# Other nodes of ours are recognised by their cgroups.
restore_kernel() {
  [[ -e $KERNEL_WAS && -z $(find /sys/fs/cgroup -maxdepth 2 -name 'rubelet-node.*' -print -quit) ]] || return 0
  sysctl -q -e -p "$KERNEL_WAS" >/dev/null 2>&1 || true
  rm -f "$KERNEL_WAS"
  # The one path outside of DIR that upstream's kubelet requires.
  rm -f /var/lib/kubelet/device-plugins/kubelet.sock
  rmdir /var/lib/kubelet/device-plugins /var/lib/kubelet 2>/dev/null || true
}

# `fail WHAT`
fail() {
  tail -n 20 "$cluster/agent.log" >&2
  die "$1; the end of $cluster/agent.log is above"
}

main "$@"
