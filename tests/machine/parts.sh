#!/usr/bin/env bash
# What a machine has beside Debian:
#   parts.sh DIR        the programs and settings of every machine: containerd, runc, CNI plugins
#   parts.sh DIR NAME   those of one machine: the network of its pods
# Programs of the cache are linked, not copied, if the file system is the same: nobody writes into a lower layer.
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

dir=$1

main() {
  if (($# == 2)); then
    pod_network "$2"
    return
  fi
  "$ENV_DIR/install.sh" runtime
  "$ENV_DIR/install.sh" cluster
  mkdir -p "$dir"/usr/{bin,sbin,lib/cni,lib/systemd/system} "$dir"/opt/cni "$dir"/etc/{containerd,systemd/system/multi-user.target.wants}
  link "$CACHE"/containerd-2.1/usr/bin/* "$dir/usr/bin"
  link "$CACHE/runc/usr/sbin/runc" "$dir/usr/sbin"
  link "$CACHE"/cni/usr/lib/cni/* "$dir/usr/lib/cni"
  link "$CACHE/kubectl/usr/bin/kubectl" "$dir/usr/bin"
  ln -sfn /usr/lib/cni "$dir/opt/cni/bin"
  containerd_config >"$dir/etc/containerd/config.toml"
  containerd_unit >"$dir/usr/lib/systemd/system/containerd.service"
  ln -sfn /usr/lib/systemd/system/containerd.service "$dir/etc/systemd/system/multi-user.target.wants/containerd.service"
}

link() { cp -alf "$@" 2>/dev/null || cp -af "$@"; }

# As an administrator has it who follows containerd's advice for a machine with systemd. Without CAP_SYS_RESOURCE runc
# fails to lower an OOM score, hence the restriction.
containerd_config() {
  cat <<'END'
version = 3
oom_score = 0
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "registry.k8s.io/pause:3.10.2"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "/usr/sbin/runc"
  SystemdCgroup = true
END
}

containerd_unit() {
  cat <<'END'
[Unit]
Description=containerd container runtime
After=network.target dbus.service

[Service]
Type=notify
ExecStart=/usr/bin/containerd
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
LimitNOFILE=infinity
TasksMax=infinity

[Install]
WantedBy=multi-user.target
END
}

# Each pod has a link of its own to its machine, and everything else is routed. On a bridge, a reply of a pod to another
# one of the same machine would pass the rules of kube-proxy by, unless the kernel has br_netfilter.
pod_network() {
  mkdir -p "$dir/etc/cni/net.d"
  jq -n --arg subnet "$POD_PREFIX.$(number "$1").0/24" '{
    cniVersion: "1.0.0", name: "pods",
    plugins: [
      {type: "ptp", ipMasq: false,
       ipam: {type: "host-local", ranges: [[{subnet: $subnet}]], routes: [{dst: "0.0.0.0/0"}]}},
      {type: "portmap", capabilities: {portMappings: true}}]}' >"$dir/etc/cni/net.d/10-pods.conflist"
}

main "$@"
