#!/usr/bin/env bash
# containerd is upgraded under 20 running pods, from 1.6 to 2.1: containers and restart counts stay, no pod is seen unready, and
# pods start and end with the new one. The node begins without pods: nothing goes back from 2.1 to 1.6.
set -euo pipefail
# shellcheck source=tests/machine/scenarios/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PODS=20
OLD=$CACHE/containerd-1.6/usr/bin

main() {
  begin
  older
  started calm "$PODS"
  sleep "$SETTLE"
  # Not the node's own pods: on cgroup v1 systemd moves the pause process of a pod on the node's network out of its scope's
  # devices cgroup, with any kubelet. runc then counts no process, and containerd 2.1 ends the sandbox as a leaked one.
  WATCHED=("${ON_NODE[@]}" -l app=calm)
  unaffected "containerd 1.6 -> 2.1" again newer
  started others 5
  settled
  gone calm others
}

version() { on containerd --version | cut -d ' ' -f 3; }

# Its pods end; with an empty disk containerd begins anew.
older() {
  on systemctl stop kubelet
  on systemctl start containerd
  # shellcheck disable=SC2016
  on sh -c 'for task in $(ctr -n k8s.io tasks ls -q); do ctr -n k8s.io tasks kill -s KILL "$task"; done' || true
  on systemctl stop containerd
  # Of this machine only: it has processes of its own.
  on sh -c 'pkill -KILL containerd-shim; findmnt -rno TARGET | grep "^/run/containerd/" | sort -r | xargs -r umount -l' || true
  on sh -c 'rm -rf /var/lib/containerd/* /run/containerd'
  install_from "$OLD"
  config | on tee /etc/containerd/config.toml >/dev/null
  on systemctl start containerd
  [[ $(version) == *1.6.* ]] || wrong "the machine has containerd $(version)"
  import
  again on systemctl start kubelet
  # The statuses of before the wipe are in the API for a while.
  settled "the node's own pods run on $(version)"
  until_true 60 all_ready || wrong "a pod of the node is not ready"
}

# `install_from DIR`: as a package does, by a rename while the old program runs.
install_from() {
  local name
  for name in containerd containerd-shim-runc-v2 ctr; do
    "$RUN" put "$1/$name" "$NODE" "/usr/bin/$name.new"
    on mv "/usr/bin/$name.new" "/usr/bin/$name"
  done
}

newer() {
  install_from "$CACHE/containerd-2.1/usr/bin"
  # The file of the lower layer.
  on tee /etc/containerd/config.toml <"$AT/parts/etc/containerd/config.toml" >/dev/null
  on systemctl restart containerd
  [[ $(on ctr version) == *2.1.* ]] || wrong "containerd 2.1 does not run"
}

import() {
  local image
  for image in "$CACHE"/kubeadm-images/{pause,kube-proxy,coredns}.tar "$CACHE"/images/*.tar "$CACHE/e2e-images/agnhost.tar"; do
    on ctr -n k8s.io images import - <"$image" >/dev/null
  done
}

# The same settings in the older form.
config() {
  cat <<'END'
version = 2
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10.2"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/opt/cni/bin"
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  BinaryName = "/usr/sbin/runc"
  SystemdCgroup = true
END
}

main
