#!/usr/bin/env bash
# Tests that need systemd with cgroup v2, in a virtual machine (vm.sh):
#   vm-tests.sh                   the driver and a reboot (vm-node.sh)
#   vm-tests.sh pressure LOAD…    pods that take what the node has (vm-pressure.sh): memory two processes disk inodes oom
#   AGENT=upstream ROUNDS=3               for the loads: upstream's kubelet (rubelet), and so many pods of each load (1)
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
files=()
cd "$REPO"

main() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-test.XXXXXX")
  trap clean_vm EXIT
  node_files
  case ${1:-} in
    '') node ;;
    pressure) pressure "${@:2}" ;;
    *) die "usage: vm-tests.sh [pressure LOAD…]" ;;
  esac
}

node() {
  local tests
  put_agent rubelet
  tests=${LINUX_TESTS:-$(built_tests rubelet-linux)}
  strip --strip-debug -o "$work/linux-tests" "$tests"
  in_vm $((PATIENCE * 5)) -c "$work/linux-tests:/vm/linux-tests" -c "$HERE/vm-node.sh:/vm/node.sh" bash /vm/node.sh "$PATIENCE"
}

pressure() {
  local agent=${AGENT:-rubelet} rounds=${ROUNDS:-1} loads=("$@")
  (($#)) || loads=(memory two processes disk inodes oom)
  put_agent "$agent"
  cc -static -Os -s -Wall -Wextra -Werror -o "$work/vm/pressure" "$HERE/vm-pressure.c"
  in_vm $((PATIENCE * (3 + rounds * ${#loads[@]}))) -c "$HERE/vm-pressure.sh:/vm/node.sh" \
    bash /vm/node.sh "$PATIENCE" "$agent" "$rounds" "${loads[@]}"
}

# Symbols are half of a program's size, and the disk is written anew each time.
put_agent() {
  case $1 in
    rubelet) strip --strip-debug -o "$work/rubelet" "${RUBELET:-$(built_rubelet)}" && files+=(-c "$work/rubelet:/usr/bin/rubelet") ;;
    upstream) files+=(-c "$("$ENV_DIR/k8s-build.sh" kubelet)/kubelet:/usr/bin/kubelet") ;;
    *) die "no such agent: $1 (rubelet, upstream)" ;;
  esac
}

node_files() {
  local plugin file
  for file in "$CACHE"/containerd-2.1/usr/bin/{containerd,containerd-shim-runc-v2,ctr} "$CACHE/runc/usr/sbin/runc"; do
    files+=(-c "$file:/usr/bin/${file##*/}")
  done
  for plugin in bridge host-local loopback; do
    files+=(-c "$CACHE/cni/usr/lib/cni/$plugin:/opt/cni/bin/$plugin")
  done
  mkdir "$work/vm"
  cp "$CACHE"/images/{pause,busybox}.tar "$HERE/vm-api.sh" "$HERE/vm-inside.sh" "$REPO/packaging/kubelet.service" "$work/vm"
  containerd_config >"$work/vm/containerd.toml"
  network >"$work/vm/network.conflist"
}

# `in_vm SECONDS [-c …]… PROGRAM ARGUMENT…`
in_vm() {
  local seconds=$1
  shift
  "$HERE/vm.sh" -t "$seconds" -m 2048 "${files[@]}" -c "$work/vm:/vm" "$@"
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
