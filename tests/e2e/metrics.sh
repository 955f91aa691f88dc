#!/usr/bin/env bash
# The metric pages of upstream's kubelet and of rubelet, with the same pods on the same node, one agent after the other.
# Every name, type, set of labels and set of buckets that one has and the other has not is a difference; each has to be in
# metrics-differences.txt, with its reason.
#   metrics.sh DIR LOGS     the pages are left in LOGS as upstream-metrics.txt, rubelet-metrics.txt and so on
set -euo pipefail
# shellcheck source=tests/e2e/scenario.sh
. "$(dirname "${BASH_SOURCE[0]}")/scenario.sh"
KEPT=$REPO/tests/e2e/metrics-differences.txt
PAGES=(metrics metrics/probes)
PATIENCE=60
PROMTOOL=$CACHE/prometheus/usr/bin/promtool
AGNHOST=registry.k8s.io/e2e-test-images/agnhost:2.63.0

main() {
  local agent page
  "$ENV_DIR/install.sh" metrics || wrong "promtool cannot be had"
  begin upstream
  # shellcheck source=/dev/null
  . "$cluster/env"
  for agent in upstream rubelet; do
    if [[ $agent != upstream ]]; then
      quit TERM
      agent "$agent"
    fi
    use_the_node "$agent"
    for page in "${PAGES[@]}"; do
      node_page "$page" >"$logs/$agent-${page//\//-}.txt" || wrong "$agent does not serve /$page"
    done
    leave_the_node "$agent"
  done
  for page in "${PAGES[@]}"; do
    differences "$page"
  done >"$logs/differences.txt"
  gates
  well_formed
  judge
}

# `use_the_node AGENT`: a pod of each kind, and requests to the node's API, so that as many series as possible are there.
use_the_node() {
  static_pod
  pods | k apply -f - >/dev/null
  until_true "$PATIENCE" k wait pod/web --for=condition=Ready --timeout=1s >/dev/null 2>&1 || wrong "a pod is not ready with $1"
  until_true "$PATIENCE" is failed '.status.phase == "Failed"' || wrong "a pod has not failed with $1"
  until_true "$PATIENCE" is succeeded '.status.phase == "Succeeded"' || wrong "a pod has not succeeded with $1"
  until_true "$PATIENCE" is rejected '.status.reason == "NodeAffinity"' || wrong "a pod was not rejected with $1"
  until_true "$PATIENCE" is absent '.status.containerStatuses[0].state.waiting' || wrong "an image is there with $1"
  until_true "$PATIENCE" is crashing '.status.containerStatuses[0].restartCount > 0' || wrong "a pod was not restarted with $1"
  until_true "$PATIENCE" is "static-$NODE_NAME" '.status.phase == "Running"' || wrong "the static pod has no mirror with $1"
  resize
  k exec web -c web -- true || wrong "exec failed with $1"
  k logs web -c web >/dev/null || wrong "logs failed with $1"
  k delete pod hooked --grace-period=2 --timeout="${PATIENCE}s" >/dev/null || wrong "a pod is not gone with $1"
  # Requests of no path and of no right.
  node_page no/such/page >/dev/null || true
  curl -sk --max-time 10 --noproxy '*' "https://127.0.0.1:$PORT_KUBELET/pods" -o /dev/null || true
  # The first request's duration is on the second page.
  node_page metrics >/dev/null
  node_page metrics/probes >/dev/null
}

leave_the_node() {
  rm -f "$cluster/manifests/static.yaml"
  pods | k delete -f - --ignore-not-found --grace-period=1 --timeout="${PATIENCE}s" >/dev/null || wrong "pods are not gone with $1"
}

is() { k get pod "$1" -o json 2>/dev/null | jq -e "$2" >/dev/null; }

node_page() {
  curl -sf --max-time 10 --noproxy '*' --cacert "$cluster/pki/ca.crt" --cert "$cluster/pki/admin.crt" \
    --key "$cluster/pki/admin.key" "https://127.0.0.1:$PORT_KUBELET/$1"
}

resize() {
  curl -sf --max-time 10 --noproxy '*' --cacert "$cluster/pki/ca.crt" --cert "$cluster/pki/admin.crt" \
    --key "$cluster/pki/admin.key" -X PATCH -H 'Content-Type: application/strategic-merge-patch+json' -o "$logs/answer.json" \
    -d '{"spec":{"containers":[{"name":"web","resources":{"limits":{"cpu":"200m"}}}]}}' \
    "$CLUSTER_URL/api/v1/namespaces/default/pods/web/resize" || wrong "the API server did not take the resize"
  until_true "$PATIENCE" is web '.status.containerStatuses[0].resources.limits.cpu == "200m"' || wrong "a resize was not made"
}

static_pod() {
  cat >"$cluster/manifests/static.yaml" <<END
apiVersion: v1
kind: Pod
metadata: {name: static, namespace: default}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: $AGNHOST, args: [pause]}]
END
}

pods() {
  cat <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: hello}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {word: hush}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: before, image: $AGNHOST, command: [sh, -c, "true"]}
  - {name: side, image: $AGNHOST, args: [pause], restartPolicy: Always}
  containers:
  - name: web
    image: $AGNHOST
    imagePullPolicy: IfNotPresent
    args: [netexec, --http-port=8080]
    resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 100m, memory: 128Mi}}
    startupProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 30}
    readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
    livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
    volumeMounts:
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret}
    - {name: scratch, mountPath: /scratch}
  volumes:
  - {name: config, configMap: {name: settings}}
  - {name: secret, secret: {secretName: hidden}}
  - {name: scratch, emptyDir: {}}
---
apiVersion: v1
kind: Pod
metadata: {name: failed}
spec:
  restartPolicy: Never
  containers: [{name: app, image: $AGNHOST, command: [sh, -c, "exit 3"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: succeeded}
spec:
  restartPolicy: Never
  containers: [{name: app, image: $AGNHOST, command: [sh, -c, "true"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: crashing}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: $AGNHOST
    args: [pause]
    livenessProbe: {exec: {command: ["false"]}, periodSeconds: 1, failureThreshold: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: absent}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "127.0.0.1:1/no/such:image"}
---
apiVersion: v1
kind: Pod
metadata: {name: rejected}
spec:
  nodeName: $NODE_NAME
  nodeSelector: {of: no-node}
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: $AGNHOST, args: [pause]}]
---
apiVersion: v1
kind: Pod
metadata: {name: hooked}
spec:
  terminationGracePeriodSeconds: 30
  containers:
  - name: app
    image: $AGNHOST
    args: [pause]
    lifecycle: {postStart: {exec: {command: ["true"]}}, preStop: {sleep: {seconds: 20}}}
END
}

# `shapes PAGE`: for each metric its name, type, sets of label names, and the upper bounds of a histogram.
shapes() {
  awk '
    /^# TYPE / { name = $3; type[name] = $4; next }
    /^#/ || NF == 0 { next }
    {
      line = $0
      le = ""
      if (match(line, /le="[^"]*"/)) le = substr(line, RSTART + 4, RLENGTH - 5)
      gsub(/="([^"\\]|\\.)*"/, "", line)
      keys = ""
      if (match(line, /\{[^}]*\}/)) keys = substr(line, RSTART + 1, RLENGTH - 2)
      series = line
      sub(/[{ ].*/, "", series)
      own = series
      if (!(own in type)) sub(/_(bucket|sum|count)$/, "", own)
      if (!(own in type)) { type[own] = "untyped" }
      n = split(keys, list, ",")
      keys = ""
      for (i = 1; i <= n; i++) if (list[i] != "le" || type[own] != "histogram") keys = keys (keys == "" ? "" : ",") list[i]
      keys = "{" keys "}"
      if (!((own, keys) in seen)) { seen[own, keys] = 1; labels[own] = labels[own] keys }
      if (type[own] == "histogram" && series ~ /_bucket$/ && !((own, le) in bound)) { bound[own, le] = 1; bounds[own] = bounds[own] " " le }
    }
    END { for (name in type) if (name in labels) print name "\t" type[name] "\t" labels[name] "\t" bounds[name] }
  ' "$1" | LC_ALL=C sort
}

# `differences PAGE`: a line for each, of which the first three words are the key of the list.
differences() {
  local file=${1//\//-}
  shapes "$logs/upstream-$file.txt" >"$logs/upstream-$file.shapes"
  shapes "$logs/rubelet-$file.txt" >"$logs/rubelet-$file.shapes"
  awk -F '\t' -v page="/$1" '
    function differ(kind, name, theirs, ours) {
      if (theirs != ours) print kind, page, name "\tupstream: " theirs ", rubelet: " ours
    }
    NR == FNR { type[$1] = $2; labels[$1] = $3; bounds[$1] = $4; next }
    !($1 in type) { print "extra", page, $1 "\t" $2 " " $3; next }
    { here[$1] = 1; differ("type", $1, type[$1], $2); differ("labels", $1, labels[$1], $3); differ("buckets", $1, bounds[$1], $4) }
    END { for (name in type) if (!(name in here)) print "missing", page, name "\t" type[name] " " labels[name] }
  ' "$logs/upstream-$file.shapes" "$logs/rubelet-$file.shapes" | LC_ALL=C sort
}

# Feature gates have the same names, stages and values.
gates() {
  local agent
  for agent in upstream rubelet; do
    grep '^kubernetes_feature_enabled{' "$logs/$agent-metrics.txt" | LC_ALL=C sort >"$logs/$agent-gates.txt" || true
  done
  diff "$logs/upstream-gates.txt" "$logs/rubelet-gates.txt" >"$logs/gates.diff" || wrong "feature gates are not the same, see $logs/gates.diff"
}

# Prometheus' own check of rubelet's pages. It may only complain of what it complains of on upstream's page too: names that
# are upstream's cannot be changed.
well_formed() {
  local page agent file
  for page in "${PAGES[@]}"; do
    file=${page//\//-}
    for agent in upstream rubelet; do
      # Exit code 3: it read the page, and has advice.
      "$PROMTOOL" check metrics <"$logs/$agent-$file.txt" 2>&1 | sort >"$logs/promtool-$agent-$file.txt" || ((PIPESTATUS[0] == 3)) ||
        wrong "promtool does not read /$page of $agent, see $logs/promtool-$agent-$file.txt"
    done
    comm -13 "$logs/promtool-upstream-$file.txt" "$logs/promtool-rubelet-$file.txt" >"$logs/promtool-$file.txt"
    [[ ! -s $logs/promtool-$file.txt ]] || wrong "promtool complains of /$page:"$'\n'"$(<"$logs/promtool-$file.txt")"
  done
}

judge() {
  local unlisted gone
  unlisted=$(listed no)
  gone=$(stale)
  say "    /metrics: $(wc -l <"$logs/upstream-metrics.shapes") metrics of upstream, $(wc -l <"$logs/rubelet-metrics.shapes") of rubelet, $(wc -l <"$logs/differences.txt") differences"
  [[ -z $gone ]] || printf '    listed, and no difference now: %s\n' "${gone//$'\n'/$'\n'    listed, and no difference now: }"
  [[ -z $unlisted ]] || wrong "differences that are not in ${KEPT#"$REPO/"}:"$'\n'"${unlisted}"
}

kept() { sed '/^#/d; /^$/d' "$KEPT"; }

# `listed yes|no`: the differences that are in the list, or are not. A name in the list may end in a star.
listed() {
  local line key pattern is
  while IFS= read -r line; do
    key=${line%%$'\t'*} is=no
    while IFS=$'\t' read -r pattern _; do
      # shellcheck disable=SC2053  # a pattern
      [[ $key != $pattern ]] || is=yes
    done < <(kept)
    [[ $is != "$1" ]] || say "$line"
  done <"$logs/differences.txt"
}

# Lines of the list that match no difference.
stale() {
  local line key pattern is
  while IFS=$'\t' read -r pattern _; do
    is=no
    while IFS= read -r line; do
      key=${line%%$'\t'*}
      # shellcheck disable=SC2053  # a pattern
      [[ $key != $pattern ]] || is=yes
    done <"$logs/differences.txt"
    [[ $is == yes ]] || say "$pattern"
  done < <(kept)
}

main
