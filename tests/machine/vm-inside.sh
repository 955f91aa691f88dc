# shellcheck shell=bash
# Inside the virtual machine: what its tests have in common. Sourced by vm-node.sh and vm-pressure.sh, which set PATIENCE, the
# seconds for each condition, and API, the directory of the API server.

# Emulation is slow, and the host may be busy: conditions are polled cheaply and rarely.
PATIENCE=90 API=''

fail() {
  echo "FAILED: $*"
  rubelet pods || true
  systemctl --failed --no-legend || true
  systemd-cgls --no-pager -l /kubepods.slice || true
  journalctl --no-pager -q -o short-monotonic -n 40 -u kubelet || true
  journalctl --no-pager -q -o short-monotonic -n 25 -u containerd -u systemd-logind -u init.scope || true
  exit 1
}

ok() { echo "ok: $*"; }

# `wait_for WHAT COMMAND…`
wait_for() {
  local what=$1 end=$((SECONDS + PATIENCE))
  shift
  until "$@"; do
    ((SECONDS < end)) || fail "$what: not within $PATIENCE s"
    sleep 0.5
  done
  ok "$what"
}

# `check NAME VALUE FOUND`
check() {
  [[ $3 == "$2" ]] || fail "$1 is $3, not $2"
  ok "$1 is $2"
}

# `check_file FILE VALUE`
check_file() { check "$1" "$2" "$(cat "$1")"; }

# `check_unit UNIT PROPERTY VALUE`
check_unit() { check "$2 of $1" "$3" "$(systemctl show "$1" --value --property="$2")"; }

# `is_running POD`
is_running() { kubelet pods 2>/dev/null | grep -q "$1.* Running"; }

kubelet_is() { [[ $(systemctl is-active kubelet) == "$1" ]]; }

# `limited_scope SLICE`: of the container; the sandbox has no limits.
limited_scope() { dirname "$(grep -Lx max "$1"/*.scope/memory.max)"; }

# Units of containerd and of the API server; rubelet's is the package's.
service_files() {
  mkdir -p /etc/containerd /etc/cni/net.d /etc/default /var/lib/kubelet "$API"/{pods,statuses}
  cp /vm/containerd.toml /etc/containerd/config.toml
  cp /vm/network.conflist /etc/cni/net.d/10-network.conflist
  cp /vm/kubelet.service /etc/systemd/system/kubelet.service
  cat >/etc/systemd/system/containerd.service <<'END'
[Unit]
Description=containerd
[Service]
Type=notify
ExecStart=/usr/bin/containerd
Delegate=yes
KillMode=process
[Install]
WantedBy=multi-user.target
END
  cat >/etc/systemd/system/vm-api.service <<END
[Unit]
Description=An API server of a few pods
Before=kubelet.service
[Service]
Type=exec
ExecStart=/usr/bin/socat TCP-LISTEN:8001,bind=127.0.0.1,reuseaddr,fork 'EXEC:/vm/vm-api.sh $API'
[Install]
WantedBy=multi-user.target
END
  cat >/var/lib/kubelet/kubeconfig <<'END'
apiVersion: v1
kind: Config
clusters: [{name: vm, cluster: {server: "http://127.0.0.1:8001"}}]
contexts: [{name: vm, context: {cluster: vm, user: vm}}]
users: [{name: vm, user: {token: vm}}]
current-context: vm
END
  printf '%s\n' KUBELET_KUBECONFIG_ARGS=--kubeconfig=/var/lib/kubelet/kubeconfig \
    "KUBELET_EXTRA_ARGS=--node-ip=10.213.1.1 --hostname-override=vm" >/etc/default/kubelet
}

start_services() {
  local image
  systemctl daemon-reload
  # rubelet first: it waits for the runtime.
  systemctl enable -q --now vm-api.service
  systemctl enable -q kubelet.service containerd.service
  systemctl start --no-block kubelet.service
  systemctl start containerd.service
  for image in /vm/{pause,busybox}.tar; do ctr -n k8s.io images import "$image" >/dev/null; done
}
