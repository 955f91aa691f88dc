#!/usr/bin/env bash
# A private containerd, independent of other runtimes on the machine:
#   containerd.sh start VERSION DIR   VERSION is 2.1 or 1.6; its socket is DIR/containerd.sock
#   containerd.sh stop DIR            stops it and its pods, and removes everything, DIR included
#   ROOT_AT=DIR2                      with `start`: its data are in DIR2, which may be on another disk
# `start` on a directory in use stops the old instance first. Both may be run after any kind of crash.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/env/containerd-config.sh
. "$ENV_DIR/containerd-config.sh"
# shellcheck source=tests/env/containerd-stop.sh
. "$ENV_DIR/containerd-stop.sh"

# shellcheck disable=SC2034  # used by containerd-config.sh
SANDBOX_IMAGE=rubelet.test/pause:1
# Each instance takes one subnet of this range.
NET=10.213
# containerd answers in half a second; on a cold machine with a build in parallel it may take far longer.
START_SECONDS=90

usage="usage: containerd.sh start VERSION DIR | containerd.sh stop DIR"

main() {
  case ${1:-} in
    start)
      [[ $# == 3 ]] || die "$usage"
      version=$2 dir=$(realpath -m "$3")
      start
      ;;
    stop)
      [[ $# == 2 ]] || die "$usage"
      dir=$(realpath -m "$2")
      stop
      ;;
    *) die "$usage" ;;
  esac
}

start() {
  [[ $EUID == 0 ]] || die "containerd needs root"
  [[ $dir != *[[:space:]]* && ${#dir} -lt 80 ]] || die "$dir: a socket's path must be short and without spaces"
  [[ -x $CACHE/containerd-$version/usr/bin/containerd ]] ||
    die "containerd $version is not in $CACHE; tests/env/install.sh fetches it"
  stop
  mkdir -p "$dir"/{cni,certs.d}
  touch "$dir/$MARK"
  [[ -z ${ROOT_AT:-} ]] || bind_root
  take_bridge
  if may_lower_oom_score; then restrict=false; else restrict=true; fi
  case $version in
    1.*) config_v2 ;;
    *) config_v3 ;;
  esac >"$dir/config.toml"
  cni_config >"$dir/cni/10-$bridge.conflist"
  launch
  import_images
}

bind_root() {
  mkdir -p "$ROOT_AT" "$dir/root"
  mount --bind "$ROOT_AT" "$dir/root"
}

# The bridge is made here rather than by the first pod: its name is the lock on its subnet.
take_bridge() {
  local n
  sweep_bridges
  for n in {1..250}; do
    bridge=rbt$n subnet=$NET.$n.0/24
    [[ -z $(ip -4 route show root "$subnet") ]] || continue
    ip link add "$bridge" type bridge 2>/dev/null || continue
    # A later run finds the owner by this alias.
    ip link set "$bridge" alias "rubelet:$dir"
    ip addr add "$NET.$n.1/24" dev "$bridge"
    ip link set "$bridge" up
    remember_forwarding
    return
  done
  die "no free subnet in $NET.0.0/16: see ip link show type bridge"
}

# Without the capability runc fails to lower an OOM score, so containerd is configured not to request it.
may_lower_oom_score() { (echo -500 >/proc/self/oom_score_adj) 2>/dev/null; }

launch() {
  local bin=$CACHE/containerd-$version/usr/bin
  # A clean environment: proxies and the like of the caller must not affect the test.
  env -i HOME="$dir" PATH="$bin:$CACHE/runc/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin" \
    setsid "$bin/containerd" --config "$dir/config.toml" </dev/null >"$dir/containerd.log" 2>&1 &
  pid=$!
  echo "$pid" >"$dir/containerd.pid"
  if ! until_true "$START_SECONDS" ready_or_dead || ! kill -0 "$pid" 2>/dev/null; then
    tail -n 20 "$dir/containerd.log" >&2
    stop
    die "containerd $version did not become ready within $START_SECONDS s; the end of its log is above"
  fi
}

ready_or_dead() { network_ready || ! kill -0 "$pid" 2>/dev/null; }

# CRI's Status call made by hand: an empty gRPC message, and in the reply the condition "NetworkReady" (a string)
# followed by field 2, true.
network_ready() {
  printf '\0\0\0\0\0' | curl -s --max-time 1 --http2-prior-knowledge --unix-socket "$dir/containerd.sock" \
    -H 'content-type: application/grpc' -H 'te: trailers' --data-binary @- \
    http://localhost/runtime.v1.RuntimeService/Status | LC_ALL=C grep -qaP 'NetworkReady\x10\x01'
}

import_images() {
  local image
  for image in "$CACHE"/images/*.tar; do
    "$CACHE/containerd-$version/usr/bin/ctr" -a "$dir/containerd.sock" -n k8s.io images import "$image" >/dev/null
  done
}

main "$@"
