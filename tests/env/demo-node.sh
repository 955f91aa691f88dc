# shellcheck shell=bash
# The demo's node: rubelet's configuration, start and stop. Sourced by demo.sh.

# shellcheck source=tests/env/cgroup.sh
. "$ENV_DIR/cgroup.sh"

work='' rubelet_pid='' cgroup='' ui_port=''

start_rubelet() {
  mkdir -p "$work"/{kubelet,logs}
  cgroup=rubelet-demo.$$
  each_hierarchy make_cgroup "$cgroup"
  cat >"$work/config.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: $REPO/examples
containerRuntimeEndpoint: unix://$work/containerd/containerd.sock
podLogsDir: $work/logs
cgroupRoot: /$cgroup
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
# However full the disk of this machine is: the demo takes little of it.
evictionHard: {memory.available: 100Mi}
# No port is opened: a node of this machine, or another demo, may use the default ones.
enableServer: false
healthzPort: 0
END
  ui_port=$(free_port)
  # A separate session: Ctrl-C goes to this script only, which then stops rubelet gracefully.
  setsid "$RUBELET" --config "$work/config.yaml" --root-dir "$work/kubelet" --hostname-override demo --local-ui "$ui_port" \
    </dev/null >"$work/rubelet.log" 2>&1 &
  rubelet_pid=$!
}

# A port of loopback that nobody listens on.
free_port() {
  local port
  for port in {8123..8199}; do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}

stop_rubelet() {
  [[ -n $rubelet_pid ]] || return 0
  kill "$rubelet_pid" 2>/dev/null || return 0
  until_true 10 ended || kill -KILL "$rubelet_pid"
  wait "$rubelet_pid" 2>/dev/null || true
}

ended() { ! kill -0 "$rubelet_pid" 2>/dev/null; }

remove_node() {
  local at
  while read -r at; do
    umount "$at" || umount -l "$at" || true
  done < <(cut -d' ' -f5 /proc/self/mountinfo | grep "^$work/" | tac)
  [[ -z $cgroup ]] || each_hierarchy remove_cgroup "$cgroup"
  rm -rf --one-file-system "$work"
}
