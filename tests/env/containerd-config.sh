# shellcheck shell=bash
# The configuration of a private containerd. Sourced by containerd.sh, which sets the directory and the network.
#
# Everything that containerd would keep in a system directory is moved below `dir`: root, state, runc's state, network
# namespaces, /opt/containerd. NRI would use the system-wide socket, and is disabled.

# Set by containerd.sh.
dir='' bridge='' subnet='' restrict=''

# `runtime_table PREFIX`: two handlers, so that a RuntimeClass has a choice.
runtime_table() {
  local handler
  for handler in runc runc-alt; do
    cat <<END
[plugins."$1".containerd.runtimes.$handler]
  runtime_type = "io.containerd.runc.v2"
[plugins."$1".containerd.runtimes.$handler.options]
  BinaryName = "$CACHE/runc/usr/sbin/runc"
  Root = "$dir/runc"
  SystemdCgroup = false
END
  done
}

common_config() {
  cat <<END
root = "$dir/root"
state = "$dir/state"
oom_score = 0
[grpc]
  address = "$dir/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$dir/opt"
END
}

# containerd 1.6: CRI is one plugin.
config_v2() {
  local cri=io.containerd.grpc.v1.cri
  cat <<END
version = 2
$(common_config)
[plugins."$cri"]
  sandbox_image = "$SANDBOX_IMAGE"
  restrict_oom_score_adj = $restrict
  netns_mounts_under_state_dir = true
[plugins."$cri".cni]
  bin_dir = "$CACHE/cni/usr/lib/cni"
  conf_dir = "$dir/cni"
[plugins."$cri".registry]
  config_path = "$dir/certs.d"
[plugins."$cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
$(runtime_table "$cri")
END
}

# containerd 2: CRI is two plugins, one for images and one for the runtime.
config_v3() {
  local run=io.containerd.cri.v1.runtime images=io.containerd.cri.v1.images
  cat <<END
version = 3
$(common_config)
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."$images"]
  snapshotter = "overlayfs"
[plugins."$images".pinned_images]
  sandbox = "$SANDBOX_IMAGE"
[plugins."$images".registry]
  config_path = "$dir/certs.d"
[plugins."$run"]
  restrict_oom_score_adj = $restrict
  netns_mounts_under_state_dir = true
[plugins."$run".cni]
  bin_dirs = ["$CACHE/cni/usr/lib/cni"]
  conf_dir = "$dir/cni"
[plugins."$run".containerd]
  default_runtime_name = "runc"
$(runtime_table "$run")
END
}

# The host reaches the pods over the bridge; no traffic leaves the machine, so nothing is masqueraded.
cni_config() {
  jq -n --arg bridge "$bridge" --arg subnet "$subnet" --arg data "$dir/ipam" '{
    cniVersion: "1.0.0", name: $bridge,
    plugins: [{
      type: "bridge", bridge: $bridge, isGateway: true, ipMasq: false,
      ipam: {type: "host-local", dataDir: $data, ranges: [[{subnet: $subnet}]], routes: [{dst: "0.0.0.0/0"}]}}]}'
}
