# shellcheck shell=bash
# A Deployment, and pods as a client of the API server sees them. Sourced by the library of scenarios, which sets KUBECTL (a
# command), logs (a directory) and watcher (empty).
# shellcheck disable=SC2154,SC2034

k() { "${KUBECTL[@]}" "$@"; }

wrong() {
  say "    ${RED}wrong:${RESET} $*"
  exit 1
}

# `deploy NAME REPLICAS VERSION [NODE]`: ordinary pods with a probe, a service account token and a ConfigMap.
deploy() {
  local node=${4:+kubernetes.io/hostname: $4}
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
      nodeSelector: {$node}
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

# `identities SELECTION…`: UID, container IDs and restart counts of pods, which must not change.
identities() {
  k get pods "$@" -o json | jq -r '.items[] |
    "\(.metadata.name) \(.metadata.uid) \(.status.containerStatuses // [] | map("\(.containerID) restarts=\(.restartCount)") | join(" "))"' | sort
}

# `watch_pods SELECTION…`: writes each pod's readiness to a file whenever it changes, as a client sees it.
watch_pods() {
  : >"$logs/watch.txt"
  setsid "${KUBECTL[@]}" get pods "$@" -w --no-headers \
    -o 'custom-columns=N:.metadata.name,R:.status.conditions[?(@.type=="Ready")].status,D:.metadata.deletionTimestamp' \
    >"$logs/watch.txt" 2>/dev/null &
  watcher=$!
}

# `unready_since LINE`: pods that were not ready after that line of the watch, and were not being deleted.
unready_since() { tail -n "+$(($1 + 1))" "$logs/watch.txt" | awk '$2 != "True" && $3 == "<none>" { print $1 }' | sort -u; }
watch_lines() { wc -l <"$logs/watch.txt"; }

now() { date -u +%Y-%m-%dT%H:%M:%S; }
