#!/usr/bin/env bash
# The tests of the tier "vm" that need systemd with cgroup v2, all in one virtual machine (vm.sh, vm-node.sh).
#   RUBELET=PROGRAM LINUX_TESTS=PROGRAM   programs that are already built; else cargo builds them
#   PATIENCE=SECONDS                      for each condition, and five times as long for the whole: more on a busy host
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"
# shellcheck source=tests/env/vm-lib.sh
. "$ENV_DIR/vm-lib.sh"
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BRIDGE=rbt1
PATIENCE=${PATIENCE:-90}
cd "$REPO"

main() {
  local rubelet tests plugin files=() file
  rubelet=${RUBELET:-$(built_rubelet)}
  tests=${LINUX_TESTS:-$(built_tests rubelet-linux)}
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-test.XXXXXX")
  trap clean_vm EXIT
  # Symbols are half of a program's size, and the disk is written anew each time.
  strip --strip-debug -o "$work/rubelet" "$rubelet"
  strip --strip-debug -o "$work/linux-tests" "$tests"
  for file in "$CACHE"/containerd-2.1/usr/bin/{containerd,containerd-shim-runc-v2,ctr} "$CACHE/runc/usr/sbin/runc"; do
    files+=(-c "$file:/usr/bin/${file##*/}")
  done
  for plugin in bridge host-local loopback; do
    files+=(-c "$CACHE/cni/usr/lib/cni/$plugin:/opt/cni/bin/$plugin")
  done
  mkdir "$work/vm"
  cp "$CACHE"/images/{pause,busybox}.tar "$HERE/vm-api.sh" "$REPO/packaging/kubelet.service" "$work/vm"
  containerd_config >"$work/vm/containerd.toml"
  network >"$work/vm/network.conflist"
  "$HERE/vm.sh" -t $((PATIENCE * 5)) -m 2048 "${files[@]}" -c "$work/rubelet:/usr/bin/rubelet" -c "$work/vm:/vm" \
    -c "$work/linux-tests:/vm/linux-tests" -c "$HERE/vm-node.sh:/vm/node.sh" bash /vm/node.sh "$PATIENCE"
}

# As a node has it: nothing but the driver and the image of the sandbox differs from containerd's defaults.
containerd_config() {
  local run=io.containerd.cri.v1.runtime
  cat <<END
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "rubelet.test/pause:1"
[plugins."$run".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."$run".containerd.runtimes.runc.options]
  SystemdCgroup = true
END
}

network() {
  jq -n --arg bridge "$BRIDGE" '{
    cniVersion: "1.0.0", name: $bridge,
    plugins: [{type: "bridge", bridge: $bridge, isGateway: true, ipMasq: false,
      ipam: {type: "host-local", ranges: [[{subnet: "10.213.1.0/24"}]]}}]}'
}

main "$@"
