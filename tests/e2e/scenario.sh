# shellcheck shell=bash
# Shared by the scenarios: a cluster, a deployment, and the state of its pods in the API server and the runtime.
# Sourced.

# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"

[[ $# == 2 ]] || die "usage: $(basename "$0") DIR LOGS"
cluster=$(realpath -m "$1") logs=$(realpath -m "$2")
CTR=("$CACHE/containerd-2.1/usr/bin/ctr" -a "$cluster/containerd/containerd.sock" -n k8s.io)
watcher=''

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

k() { "$cluster/kubectl" "$@"; }
agent() { "$ENV_DIR/node.sh" agent "$1" "$cluster"; }
quit() { "$ENV_DIR/node.sh" quit "$cluster" "$1"; }

wrong() {
  say "    ${RED}wrong:${RESET} $*"
  exit 1
}

# `deploy NAME REPLICAS VERSION`: ordinary pods with a probe, a service account token and a ConfigMap.
deploy() {
  k apply -f - >/dev/null <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: $1}
data: {greeting: hello}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: $1}
spec:
  replicas: $2
  progressDeadlineSeconds: 900
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1, version: "$3"}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: web
        image: registry.k8s.io/e2e-test-images/agnhost:2.63.0
        args: [netexec, --http-port=8080]
        env: [{name: VERSION, value: "$3"}]
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
        volumeMounts: [{name: config, mountPath: /config}, {name: scratch, mountPath: /scratch}]
      volumes: [{name: config, configMap: {name: $1}}, {name: scratch, emptyDir: {}}]
END
}

# The field is absent when there are none.
ready_count() { k get deployment "$1" -o json 2>/dev/null | jq '.status.readyReplicas // 0'; }
at_least_ready() { (($(ready_count "$1") >= $2)); }
# `rolled_out NAME REPLICAS`: all pods are of the newest version and ready, and no other pod of it is left.
rolled_out() {
  k get deployment "$1" -o json 2>/dev/null | jq -e --argjson n "$2" \
    '.status.observedGeneration == .metadata.generation and .status.updatedReplicas == $n and .status.readyReplicas == $n and .status.replicas == $n' >/dev/null &&
    (($(k get pods -l "app=$1" --no-headers 2>/dev/null | wc -l) == $2))
}

# `identities NAME`: UID, container ID and restart count of each pod, which must not change.
identities() {
  k get pods -l "app=$1" -o json | jq -r '.items[] |
    "\(.metadata.name) \(.metadata.uid) \(.status.containerStatuses[0].containerID) restarts=\(.status.containerStatuses[0].restartCount)"' | sort
}

# Writes each pod's readiness to a file whenever it changes, as a client sees it.
watch_pods() {
  setsid "$cluster/kubectl" get pods -l "app=$1" -w --no-headers \
    -o 'custom-columns=N:.metadata.name,R:.status.conditions[?(@.type=="Ready")].status,D:.metadata.deletionTimestamp' \
    >"$logs/watch.txt" 2>/dev/null &
  watcher=$!
}

# `unready_since LINE`: pods that were not ready after that line of the watch, and were not being deleted.
unready_since() { tail -n "+$(($1 + 1))" "$logs/watch.txt" | awk '$2 != "True" && $3 == "<none>" { print $1 }' | sort -u; }
watch_lines() { wc -l <"$logs/watch.txt"; }

# The agent answers, has renewed its node, and has had time to sync every pod.
taken_over() {
  local healthz=$1 since=$2
  curl -sf --max-time 1 --noproxy '*' "http://127.0.0.1:$healthz/healthz" -o "$logs/healthz" &&
    k -n kube-node-lease get lease "$NODE_NAME" -o json 2>/dev/null |
    jq -e --arg since "$since" '.spec.renewTime > $since' >/dev/null
}

now() { date -u +%Y-%m-%dT%H:%M:%S; }

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
