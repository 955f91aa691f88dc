# shellcheck shell=bash
# Shared by the scenarios: a cluster, a deployment, and the state of its pods in the API server and the runtime.
# Sourced.

# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"

[[ $# == 2 ]] || die "usage: $(basename "$0") DIR LOGS"
cluster=$(realpath -m "$1") logs=$(realpath -m "$2")
CTR=("$CACHE/containerd-2.1/usr/bin/ctr" -a "$cluster/containerd/containerd.sock" -n k8s.io)
KUBECTL=("$cluster/kubectl")
watcher=''
# shellcheck source=tests/env/pods.sh
. "$ENV_DIR/pods.sh"

# `begin AGENT`
begin() {
  mkdir -p "$logs"
  trap finish EXIT
  trap 'exit 130' INT TERM HUP
  "$ENV_DIR/k8s.sh" start "$cluster" >/dev/null
  "$ENV_DIR/node.sh" start "$1" "$cluster" >/dev/null
}

# run.sh takes the cluster down; by hand: node.sh stop and k8s.sh stop.
# shellcheck disable=SC2317  # called by the trap
finish() {
  local status=$?
  trap - EXIT
  if [[ -n $watcher ]]; then kill "$watcher" 2>/dev/null || true; fi
  if ((status)); then k get pods -A -o wide >"$logs/pods.txt" 2>&1 || true; fi
  cp "$cluster"/*.log "$cluster/containerd/containerd.log" "$logs/" 2>/dev/null || true
  exit "$status"
}

agent() { "$ENV_DIR/node.sh" agent "$1" "$cluster"; }
quit() { "$ENV_DIR/node.sh" quit "$cluster" "$1"; }

# The agent answers, has renewed its node, and has had time to sync every pod.
taken_over() {
  local healthz=$1 since=$2
  curl -sf --max-time 1 --noproxy '*' "http://127.0.0.1:$healthz/healthz" -o "$logs/healthz" &&
    k -n kube-node-lease get lease "$NODE_NAME" -o json 2>/dev/null |
    jq -e --arg since "$since" '.spec.renewTime > $since' >/dev/null
}

# `running`: UID, container and ID of each running container that is not a sandbox; from the runtime alone.
running() {
  local id
  for id in $("${CTR[@]}" tasks ls | awk '$3 == "RUNNING" { print $1 }'); do
    "${CTR[@]}" containers info "$id" 2>/dev/null | jq -r 'select(.Labels["io.cri-containerd.kind"] == "container") |
      "\(.Labels["io.kubernetes.pod.uid"]) \(.Labels["io.kubernetes.container.name"]) \(.ID)"'
  done | sort
}

# The pod UIDs of the runtime's sandboxes, running or not.
sandboxes() {
  local id
  for id in $("${CTR[@]}" containers ls -q); do
    "${CTR[@]}" containers info "$id" 2>/dev/null |
      jq -r 'select(.Labels["io.cri-containerd.kind"] == "sandbox") | .Labels["io.kubernetes.pod.uid"]'
  done | sort
}
