#!/usr/bin/env bash
# The pages of usage, read by those that need them: Prometheus' own check, metrics-server with `kubectl top`, and a
# HorizontalPodAutoscaler that scales.
#   usage.sh DIR LOGS     AGENT=rubelet is the node's agent
# Upstream's kubelet runs the same pods first. Every name, type, set of labels and use of time stamps that its pages have and
# ours have not, or the other way round, has to be in usage-differences.txt, with its reason; so has every field of the
# summary. The pages are left in LOGS: upstream-metrics-cadvisor.txt, rubelet-stats-summary.json and so on.
set -euo pipefail
# shellcheck source=tests/e2e/scenario.sh
. "$(dirname "${BASH_SOURCE[0]}")/scenario.sh"
# shellcheck source=tests/env/k8s-pki.sh
. "$ENV_DIR/k8s-pki.sh"
AGENT=${AGENT:-${NODE:-rubelet}}
KEPT=$REPO/tests/e2e/usage-differences.txt
PAGES=(metrics/resource metrics/cadvisor metrics/slis)
AGNHOST=registry.k8s.io/e2e-test-images/agnhost:2.63.0
PROMTOOL=$CACHE/prometheus/usr/bin/promtool
PATIENCE=90
server_pid=''

main() {
  "$ENV_DIR/install.sh" metrics || wrong "promtool cannot be had"
  local programs
  programs=$("$ENV_DIR/k8s-build.sh" metrics-server) || wrong "metrics-server cannot be had"
  # Where upstream's cAdvisor finds the containers' names; rubelet takes the flag and does not need it.
  export NODE_FLAGS="--containerd=$cluster/containerd/containerd.sock"
  begin upstream
  # shellcheck source=/dev/null
  . "$cluster/env"
  trap 'stop_server; finish' EXIT
  pods | k apply -f - >/dev/null
  until_true "$PATIENCE" ready || wrong "the pods are not ready with upstream's kubelet"
  # cAdvisor reads each cgroup every ten seconds or so.
  until_true "$PATIENCE" complete || wrong "upstream's pages do not have all pods"
  take upstream
  if [[ $AGENT != upstream ]]; then
    quit TERM
    agent "$AGENT"
    until_true "$PATIENCE" complete || wrong "the pages of $AGENT do not have all pods"
    take "$AGENT"
    compare
  fi
  well_formed
  values
  serve_metrics "$programs/metrics-server"
  tops
  scales
}

pods() {
  cat <<END
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: $AGNHOST
    args: [netexec, --http-port=8080]
    resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 100m, memory: 128Mi}}
    volumeMounts: [{name: scratch, mountPath: /scratch}, {name: memory, mountPath: /memory}]
  - name: writer
    image: $AGNHOST
    command: [sh, -c, "dd if=/dev/zero of=/layer bs=1M count=2; dd if=/dev/zero of=/scratch/file bs=1M count=3; sleep 3600"]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes: [{name: scratch, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]
---
apiVersion: v1
kind: Pod
metadata: {name: host}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: $AGNHOST, args: [pause]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy}
spec:
  replicas: 1
  selector: {matchLabels: {app: busy}}
  template:
    metadata: {labels: {app: busy}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: loop
        image: $AGNHOST
        command: [sh, -c, "while :; do :; done"]
        resources: {requests: {cpu: 20m}, limits: {cpu: 100m}}
END
}

ready() { k wait pod --all --for=condition=Ready --timeout=1s >/dev/null 2>&1; }

node_page() {
  curl -sf --max-time 20 --noproxy '*' --cacert "$cluster/pki/ca.crt" --cert "$cluster/pki/admin.crt" \
    --key "$cluster/pki/admin.key" "https://127.0.0.1:$PORT_KUBELET/$1"
}

# All containers are on the pages, and the second sample of a CPU was taken.
complete() {
  local resource cadvisor name
  resource=$(node_page metrics/resource) && cadvisor=$(node_page metrics/cadvisor) || return 1
  for name in web writer app loop; do
    grep -q "^container_cpu_usage_seconds_total{container=\"$name\"" <<<"$resource" || return 1
    grep -q "^container_threads{container=\"$name\"" <<<"$cadvisor" || return 1
  done
  grep -q '^container_network_receive_bytes_total{.*pod="web"' <<<"$cadvisor" || return 1
  node_page stats/summary | jq -e '[.pods[] | select(.podRef.name == "web")][0] | .cpu.usageNanoCores > 0 and
    (.containers | length == 2 and all(.rootfs.usedBytes and .logs.usedBytes)) and ([.volume[]? | select(.name == "scratch")] | length == 1)' >/dev/null
}

# `take AGENT`: through the API server, as kubectl does it.
take() {
  local page
  # The checks are counted once somebody asks for them.
  node_page healthz >/dev/null
  for page in "${PAGES[@]}" stats/summary 'stats/summary?only_cpu_and_memory=true'; do
    k get --raw "/api/v1/nodes/$NODE_NAME/proxy/$page" >"$logs/$1-$(file_of "$page")" || wrong "$1 does not serve /$page"
  done
}

file_of() {
  case $1 in
    stats/summary) echo stats-summary.json ;;
    stats/*) echo stats-summary-short.json ;;
    *) echo "${1//\//-}.txt" ;;
  esac
}

# `shapes FILE`: of each metric its name, type, sets of label names, and whether its samples have a time stamp.
shapes() {
  awk '
    /^# TYPE / { type[$3] = $4; next }
    /^#/ || NF == 0 { next }
    {
      line = $0
      gsub(/="([^"\\]|\\.)*"/, "", line)
      keys = ""
      if (match(line, /\{[^}]*\}/)) keys = substr(line, RSTART + 1, RLENGTH - 2)
      name = line
      sub(/[{ ].*/, "", name)
      sub(/^[^{ ]*(\{[^}]*\})?/, "", line)
      # Sorted: their order means nothing.
      n = split(keys, list, ",")
      for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j] < list[j - 1]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
      keys = ""
      for (i = 1; i <= n; i++) keys = keys (keys == "" ? "" : ",") list[i]
      shape = "{" keys "}" (split(line, words, " ") > 1 ? "@" : "")
      if (!((name, shape) in seen)) { seen[name, shape] = 1; shown[name] = shown[name] shape }
    }
    END { for (name in shown) print name "\t" type[name] " " shown[name] }
  ' "$1" | LC_ALL=C sort
}

# `fields FILE`: the paths of a summary, with pods, containers, volumes and interfaces as one each.
fields() {
  jq -r '[paths(scalars) | map(if type == "number" then "*" else tostring end) | join(".")] | unique | .[] | . + "\tthere"' "$1" | LC_ALL=C sort
}

compare() {
  local page file unlisted
  for page in "${PAGES[@]}" stats/summary 'stats/summary?only_cpu_and_memory=true'; do
    file=$(file_of "$page")
    case $file in
      *.json) fields "$logs/upstream-$file" >"$logs/upstream-$file.shapes" && fields "$logs/$AGENT-$file" >"$logs/$AGENT-$file.shapes" ;;
      *) shapes "$logs/upstream-$file" >"$logs/upstream-$file.shapes" && shapes "$logs/$AGENT-$file" >"$logs/$AGENT-$file.shapes" ;;
    esac
    awk -F '\t' -v page="/$page" '
      NR == FNR { theirs[$1] = $2; next }
      !($1 in theirs) { print "extra", page, $1 "\t" $2; next }
      { here[$1] = 1; if (theirs[$1] != $2) print "other", page, $1 "\tupstream: " theirs[$1] ", ours: " $2 }
      END { for (name in theirs) if (!(name in here)) print "missing", page, name "\t" theirs[name] }
    ' "$logs/upstream-$file.shapes" "$logs/$AGENT-$file.shapes" | LC_ALL=C sort
  done >"$logs/differences.txt"
  unlisted=$(not_listed)
  say "    $(wc -l <"$logs/differences.txt") differences from upstream's pages of usage, $(grep -c . <<<"$unlisted" || true) without a reason"
  [[ -z $unlisted ]] || wrong "differences that are not in ${KEPT#"$REPO/"}:"$'\n'"$unlisted"
}

# The differences that match no line of the list. A name in the list may have stars.
not_listed() {
  local line key pattern is
  while IFS= read -r line; do
    key=${line%%$'\t'*} is=no
    while IFS=$'\t' read -r pattern _; do
      # shellcheck disable=SC2053  # a pattern
      [[ $key != $pattern ]] || is=yes
    done < <(sed '/^#/d; /^$/d' "$KEPT")
    [[ $is == yes ]] || say "$line"
  done <"$logs/differences.txt"
}

# Prometheus' own check. It may only complain of what it complains of on upstream's page too: names that are upstream's cannot
# be changed.
well_formed() {
  local page name
  for page in "${PAGES[@]}"; do
    for name in upstream "$AGENT"; do
      # Exit code 3: it read the page, and has advice.
      "$PROMTOOL" check metrics <"$logs/$name-$(file_of "$page")" 2>&1 | sort >"$logs/promtool-$name-${page//\//-}" || ((PIPESTATUS[0] == 3)) ||
        wrong "promtool does not read /$page of $name, see $logs/promtool-$name-${page//\//-}"
    done
    comm -13 "$logs"/promtool-{upstream,"$AGENT"}-"${page//\//-}" >"$logs/promtool-${page//\//-}"
    [[ ! -s $logs/promtool-${page//\//-} ]] || wrong "promtool complains of /$page:"$'\n'"$(<"$logs/promtool-${page//\//-}")"
  done
}

# What does not change between the two agents is the same on both pages: limits, sizes, what files take.
values() {
  local same='[.pods[] | select(.podRef.name == "web") | (.volume | sort_by(.name)[] | select(.name == "scratch") | [.name, (.usedBytes / 65536 | round)]),
    (.containers | sort_by(.name)[] | [.name, (.rootfs.usedBytes / 65536 | round)])] | tojson'
  diff <(jq -r "$same" "$logs/upstream-stats-summary.json") <(jq -r "$same" "$logs/$AGENT-stats-summary.json") >"$logs/values.diff" ||
    wrong "files take different room, see $logs/values.diff"
  same='^container_spec_[a-z_]*\{container="[a-z]'
  diff <(grep -E "$same" "$logs/upstream-metrics-cadvisor.txt" | by_container) <(grep -E "$same" "$logs/$AGENT-metrics-cadvisor.txt" | by_container) \
    >"$logs/limits.diff" || wrong "limits differ, see $logs/limits.diff"
}

by_container() { sed -E 's/^([a-z_]*)\{container="([^"]*)".* ([-0-9.e+]+)$/\1 \2 \3/' | awk '{ printf "%s %s %.0f\n", $1, $2, $3 }' | LC_ALL=C sort; }

# `serve_metrics PROGRAM`: metrics-server beside the cluster, with a user of its own, as an aggregated API.
serve_metrics() {
  local port=$((PORT_ETCD + 12))
  # shellcheck disable=SC2034  # read by k8s-pki.sh
  dir=$cluster url=$CLUSTER_URL
  client metrics-server system:metrics-server
  kubeconfig metrics-server >"$cluster/metrics-server.conf"
  metrics_api "$port" | k apply -f - >/dev/null
  env -i HOME="$cluster" PATH=/usr/bin:/bin "$1" --kubeconfig="$cluster/metrics-server.conf" \
    --authentication-kubeconfig="$cluster/metrics-server.conf" --authorization-kubeconfig="$cluster/metrics-server.conf" \
    --bind-address=127.0.0.1 --secure-port="$port" --cert-dir="$cluster/metrics-server" --metric-resolution=10s --kubelet-request-timeout=5s \
    --kubelet-certificate-authority="$cluster/pki/ca.crt" --kubelet-use-node-status-port \
    --kubelet-preferred-address-types=InternalIP </dev/null >"$logs/metrics-server.log" 2>&1 &
  server_pid=$!
  until_true "$PATIENCE" available || wrong "the API of metrics-server is not available, see $logs/metrics-server.log"
}

stop_server() { [[ -z $server_pid ]] || kill "$server_pid" 2>/dev/null || true; }

available() {
  k get apiservice v1beta1.metrics.k8s.io -o json | jq -e '.status.conditions[]? | select(.type == "Available") | .status == "True"' >/dev/null
}

# Without kube-proxy an address of a Service leads nowhere, but one of the kind ExternalName does.
metrics_api() {
  cat <<END
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost, ports: [{port: $1}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  service: {name: metrics-server, namespace: kube-system, port: $1}
  group: metrics.k8s.io
  version: v1beta1
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-server}
rules:
- {apiGroups: [""], resources: [nodes/metrics], verbs: [get]}
- {apiGroups: [""], resources: [pods, nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-server}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-server}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: system:metrics-server}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-server-delegator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:auth-delegator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: system:metrics-server}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: metrics-server-reader, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: system:metrics-server}]
END
}

# `kubectl top`: the busy pod uses its limit of 100m, give or take what a small machine lets it have.
tops() {
  until_true "$PATIENCE" top_shows || wrong "kubectl top does not show the pods, see $logs/top-pods.txt and metrics-server.log"
  k top nodes --no-headers >"$logs/top-nodes.txt" || wrong "kubectl top nodes failed"
  grep -qE "^$NODE_NAME +[1-9][0-9]*m +[0-9]+% +[1-9][0-9]*Mi " "$logs/top-nodes.txt" || wrong "no usage of the node: $(<"$logs/top-nodes.txt")"
  say "    kubectl top: $(tr -s ' ' <"$logs/top-nodes.txt" | head -1)"
}

top_shows() {
  k top pods --containers --no-headers >"$logs/top-pods.txt" 2>&1 || return 1
  awk '{ gsub(/m/, "", $3); cpu[$2] = $3 + 0 } END { exit !(cpu["loop"] >= 30 && cpu["loop"] <= 150 && "web" in cpu && "writer" in cpu && "app" in cpu) }' "$logs/top-pods.txt"
}

scales() {
  local begin=$SECONDS
  k autoscale deployment busy --min=1 --max=2 --cpu=50% >/dev/null 2>&1 || k autoscale deployment busy --min=1 --max=2 --cpu-percent=50 >/dev/null
  until_true "$PATIENCE" scaled || wrong "the HorizontalPodAutoscaler does not scale: $(k get hpa busy -o jsonpath='{.status.conditions[*].message}')"
  say "    a HorizontalPodAutoscaler scaled after $((SECONDS - begin)) s"
}

scaled() { (($(k get deployment busy -o jsonpath='{.spec.replicas}') == 2)); }

main
