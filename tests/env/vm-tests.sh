#!/usr/bin/env bash
# The tests of the tier "vm", each in a virtual machine with cgroup v2 (vm.sh):
#   vm-tests.sh linux   the node tests of crates/linux
#   vm-tests.sh pod     rubelet and containerd with one pod (vm-pod.sh)
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/env/containerd-config.sh
. "$ENV_DIR/containerd-config.sh"
# shellcheck source=tests/env/vm-lib.sh
. "$ENV_DIR/vm-lib.sh"
cd "$REPO"

main() {
  case ${1:-} in
    linux) linux ;;
    pod) pod ;;
    *) die "usage: vm-tests.sh linux|pod" ;;
  esac
}

linux() {
  local tests
  tests=$(built_tests rubelet-linux)
  # No cgroup v1, no systemd and no bus in this machine.
  "$ENV_DIR/vm.sh" -t 300 "$tests" --test-threads 2 node_ --skip node_v1_ --skip node_systemd_ --skip node_bus_
}

# shellcheck disable=SC2034  # dir, bridge, subnet, restrict and SANDBOX_IMAGE are read by containerd-config.sh
pod() {
  local rubelet bin=$CACHE/containerd-2.1/usr/bin plugin files=()
  rubelet=$(built_rubelet)
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-test.XXXXXX")
  # shellcheck disable=SC2064  # the value of now
  trap "rm -rf '$work'" EXIT
  dir=/containerd bridge=rbt1 subnet=10.213.1.0/24 restrict=false SANDBOX_IMAGE=rubelet.test/pause:1
  mkdir -p "$work/cni" "$work/images"
  config_v3 >"$work/config.toml"
  cni_config >"$work/cni/10-$bridge.conflist"
  cp "$CACHE"/images/{pause,busybox}.tar "$work/images"
  for plugin in bridge host-local loopback; do
    files+=(-c "$CACHE/cni/usr/lib/cni/$plugin")
  done
  "$ENV_DIR/vm.sh" -t 300 -m 2048 -c "$work:$dir" -c "$bin" -c "$CACHE/runc/usr/sbin/runc" -c "$rubelet" "${files[@]}" \
    "$ENV_DIR/vm-pod.sh" "$bin" "$rubelet" "$dir"
}

main "$@"
