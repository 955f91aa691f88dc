# shellcheck shell=bash
# Shared by the scenarios: a cluster of two machines that is there already, of which node-2 has the bad day, and what the
# API server, the runtime, systemd and the kernel have of its pods. Sourced.

# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

[[ $# == 1 ]] || die "usage: $(basename "$0") LOGS"
logs=$(realpath -m "$1")
# shellcheck disable=SC2034
RUN=$MACHINE_DIR/run.sh
NODE="node-2"
# kubectl runs on the host: a watch goes on when a machine goes down.
KUBECTL=(ip netns exec "$NET" "$CACHE/kubectl/usr/bin/kubectl" --kubeconfig "$AT/admin.conf")
ON_NODE=(-A --field-selector "spec.nodeName=$NODE")
WATCHED=("${ON_NODE[@]}")
READY_SECONDS=${READY_SECONDS:-240}
# Probes are due every second, and the slowest periodic work of an agent every ten.
SETTLE=15
CONFIG=/var/lib/kubelet/config.yaml
watcher='' followers=()
# shellcheck source=tests/env/pods.sh
. "$ENV_DIR/pods.sh"

begin() {
  mkdir -p "$logs"
  : >"$logs/table.tsv"
  trap finish EXIT
  trap 'exit 130' INT TERM HUP
  enter node-1 cat /etc/kubernetes/admin.conf >"$AT/admin.conf"
}

# What was running and logged, for those who look for the cause of a failure.
# shellcheck disable=SC2317  # called by the trap
finish() {
  local status=$? name
  trap - EXIT
  stop_watch
  ((${#followers[@]} == 0)) || kill "${followers[@]}" 2>/dev/null || true
  if ((status)); then
    k get pods -A -o wide >"$logs/pods.txt" 2>&1 || true
    k get pods -A -o yaml >"$logs/pods.yaml" 2>&1 || true
    for name in $(machines); do
      is_off "$name" || enter "$name" journalctl --no-pager -o short-precise >"$logs/$name.journal" 2>/dev/null || true
    done
  fi
  exit "$status"
}

stop_watch() {
  if [[ -n $watcher ]]; then kill "$watcher" 2>/dev/null || true; fi
  watcher=''
}

# `on COMMAND…`: in the machine that has the bad day.
on() { enter "$NODE" "$@"; }

# `measured WHAT VALUE`: a row of the table.
measured() {
  printf '%s\t%s\t%s\n' "$(basename "$0" .sh)" "$1" "$2" >>"$logs/table.tsv"
  say "    $1: $2"
}

# `timed WHAT SECONDS COMMAND…`: waits for a condition and measures how long it took; false if it does not come true.
timed() {
  local what=$1 begun=$EPOCHREALTIME
  shift
  until_true "$@" || return 1
  measured "$what" "$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f s", b - a }')"
}

# --- The agent ---

ready() { [[ $(k get node "$NODE" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) == True ]]; }

# `taken_over TIME`: the service is up, and has renewed its lease since.
taken_over() {
  [[ $(on systemctl is-active kubelet) == active ]] &&
    on curl -sf --max-time 1 http://127.0.0.1:10248/healthz -o /dev/null &&
    k -n kube-node-lease get lease "$NODE" -o json 2>/dev/null | jq -e --arg since "$1" '.spec.renewTime > $since' >/dev/null
}

# `again COMMAND…`: does something to the agent, and waits until it is back and has had time for every pod.
again() {
  local since
  since=$(now)
  "$@"
  until_true 90 taken_over "$since" || wrong "the agent has not taken the node over within 90 s after: $*"
  sleep "$SETTLE"
}

# `configure LINE…`: fields of the agent's configuration, in the place of others of that name.
configure() {
  local line others
  for line in "$@"; do
    # kubeadm writes a map over several lines.
    others=$(on cat "$CONFIG" | awk -v field="${line%%:*}:" 'index($0, field) == 1 { gone = 1; next } gone && /^[ -]/ { next } { gone = 0; print }')
    printf '%s\n' "$others" "$line" | on tee "$CONFIG" >/dev/null
  done
  again on systemctl restart kubelet
}

# --- Pods do not notice ---

# `same BEFORE WHAT`: pods of the node have the UIDs, containers and restart counts of before, and none was seen unready.
same() {
  local unready
  diff <(echo "$1") <(identities "${WATCHED[@]}") >"$logs/identities.diff" ||
    wrong "pods are not the same after $2, see $logs/identities.diff"
  unready=$(unready_since 0)
  [[ -z $unready ]] || wrong "seen not ready after $2: ${unready//$'\n'/ }"
}

# `unaffected WHAT COMMAND…`: pods do not notice what the command does: all of the node, or those that WATCHED selects.
unaffected() {
  local what=$1 before count
  shift
  before=$(identities "${WATCHED[@]}")
  count=$(wc -l <<<"$before")
  stop_watch
  watch_pods "${WATCHED[@]}"
  until_true 20 watch_has "$count" || wrong "no watch"
  "$@"
  same "$before" "$what"
  measured "$what" "$count pods the same, $(($(watch_lines) - count)) changes seen, none unready"
}

watch_has() { (($(watch_lines) >= $1)); }

# --- Nothing doubled, nothing left ---

# What the machine has of pods, a line each: the UIDs of units, cgroups, directories and mounts, the IDs of running
# containers, the UIDs of containers and sandboxes of any state, and failed units.
of_machine() {
  on sh -s <<'END'
systemctl list-units --all --plain --no-legend --no-pager 'kubepods*-pod*.slice' |
  sed -n 's/^kubepods.*-pod\([0-9a-f_]*\)\.slice .*/unit \1/p' | tr _ -
find /sys/fs/cgroup -maxdepth 5 -type d -name 'kubepods*-pod*.slice' |
  sed -n 's/.*-pod\([0-9a-f_]*\)\.slice$/cgroup \1/p' | tr _ -
ls /var/lib/kubelet/pods | sed 's/^/directory /'
findmnt -rno TARGET | sed -n 's|^/var/lib/kubelet/pods/\([^/]*\)/.*|mount \1|p'
ctr -n k8s.io tasks ls | awk '$3 == "RUNNING" { print $1 }' | sort >/run/running
ctr -n k8s.io containers ls -q 'labels."io.cri-containerd.kind"==container' | sort | comm -12 - /run/running | sed 's/^/container /'
rm /run/running
for id in $(ctr -n k8s.io containers ls -q); do
  ctr -n k8s.io containers info "$id" | sed -n 's/.*"io.kubernetes.pod.uid": "\([^"]*\)".*/remains \1/p' | head -n 1
done
systemctl list-units --all --plain --no-legend --no-pager --state=failed | sed 's/ .*//; s/^/failed /'
END
}

# What it should have. A pod that has ended keeps its directory and its containers until it is deleted.
of_api() {
  k get pods "${ON_NODE[@]}" -o json | jq -r '.items[] |
    (.metadata.annotations["kubernetes.io/config.hash"] // .metadata.uid) as $uid |
    if .status.phase == "Running" then
      "unit \($uid)", "cgroup \($uid)", "directory \($uid)",
      ((.status.containerStatuses + (.status.initContainerStatuses // []))[] | select(.state.running) | "container \(.containerID | sub(".*//"; ""))")
    else "ended \($uid)" end'
}

# Differences, a line each: `too many KIND ID` or `too few KIND ID`. A pod that has ended may have remains.
differences() {
  of_machine | sort -u >"$logs/is"
  of_api | sort -u >"$logs/should"
  awk '
    NR == FNR { if ($1 == "ended") ended[$2] = 1; else should[$0] = 1; if ($1 == "unit") runs[$2] = 1; next }
    { is[$0] = 1 }
    $1 ~ /^(mount|remains)$/ { if (!($2 in runs) && !($2 in ended)) print "too many", $0; next }
    !($0 in should) && !($1 == "directory" && ($2 in ended)) { print "too many", $0 }
    END { for (line in should) if (!(line in is)) print "too few", line }
  ' "$logs/should" "$logs/is"
}

as_the_api_says() { differences >"$logs/differences" 2>"$logs/differences.err" && [[ ! -s $logs/differences ]]; }

# Nothing is doubled and nothing is left, soon.
settled() { timed "${1:-nothing doubled, nothing left}" 120 as_the_api_says || wrong "the machine has not what the API has: $(head -n 5 "$logs/differences" "$logs/differences.err")"; }

# `gone NAME…`: those deployments, all of their pods, and what the machine had of them.
gone() {
  local name
  stop_watch
  for name in "$@"; do
    k delete deployment,configmap "$name" --wait=false --ignore-not-found >/dev/null
    # Pods that have failed too: their controller is no longer there to delete them.
    k delete pods -l "app=$name" --wait=false >/dev/null
  done
  for name in "$@"; do
    until_true 120 no_pods_of "$name" || wrong "pods of $name are still there"
  done
  settled "nothing left of ${*}"
}

no_pods_of() { [[ -z $(k get pods -l "app=$1" --no-headers 2>/dev/null) ]]; }

# `started NAME REPLICAS [VERSION]`
started() {
  deploy "$1" "$2" "${3:-1}" "$NODE"
  timed "$2 pods of $1 ready" "$READY_SECONDS" rolled_out "$1" "$2" || wrong "$2 pods of $1 are not ready after $READY_SECONDS s"
}

# --- A machine that goes down ---

# `follow FILE WHAT ARGUMENTS…`: writes each change of objects, as `kubectl get -w` shows it, until the scenario ends.
follow() {
  local file=$logs/$1
  shift
  : >"$file"
  setsid "${KUBECTL[@]}" get "$@" -w --no-headers >"$file" 2>/dev/null &
  followers+=($!)
  until_true 20 test -s "$file" || wrong "no watch of $1"
}

# Of each pod of the node: UID, phase, reason, when its first container ended.
follow_phases() {
  follow phases pods "${ON_NODE[@]}" -o \
    'custom-columns=U:.metadata.uid,P:.status.phase,R:.status.reason,E:.status.containerStatuses[0].state.terminated.finishedAt'
}

# UIDs of pods that have ended because of the shutdown, by that watch.
terminated() { awk '$2 == "Failed" && $3 == "Terminated" { print $1 }' "$logs/phases" | sort -u; }
uids() { k get pods "$@" -o jsonpath='{.items[*].metadata.uid}' | tr ' ' '\n' | sort; }

# `replaced NAME REPLICAS`: so many pods of a deployment are ready, not counting those that have failed.
replaced() {
  k get deployment "$1" -o json 2>/dev/null | jq -e --argjson n "$2" '.status.readyReplicas == $n and .status.replicas == $n' >/dev/null &&
    (($(k get pods -l "app=$1" --field-selector status.phase!=Failed --no-headers 2>/dev/null | wc -l) == $2))
}

# A reboot begins. The connection to systemd may be cut by it.
begin_reboot() {
  booted_as=$(pid1 "$NODE")
  on systemctl reboot || true
}
is_down() { [[ ! -e /proc/$booted_as ]]; }
is_up() { ! is_off "$NODE" && [[ $(on systemctl is-system-running 2>/dev/null) =~ ^(running|degraded)$ ]]; }

# `static_pod UID`: with a probe. Without a UID it gets one of its content.
static_pod() {
  on mkdir -p /etc/kubernetes/manifests
  on tee /etc/kubernetes/manifests/static.yaml >/dev/null <<END
apiVersion: v1
kind: Pod
metadata: {name: static${1:+, uid: $1}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: web
    image: registry.k8s.io/e2e-test-images/agnhost:2.63.0
    args: [netexec, --http-port=8080]
    readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
END
}
static_ready() { pod_ready default "static-$NODE"; }
static_gone() {
  on rm -f /etc/kubernetes/manifests/static.yaml
  until_true 60 no_static || wrong "the static pod does not go"
}
no_static() { ! k get pod "static-$NODE" >/dev/null 2>&1; }
pod_ready() { [[ $(k -n "$1" get pod "$2" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) == True ]]; }

# Every pod of the node that has not failed is ready.
all_ready() {
  k get pods "${ON_NODE[@]}" -o json 2>/dev/null |
    jq -e '[.items[] | select(.status.phase != "Failed")] | length > 0 and all(any(.status.conditions[]?; .type == "Ready" and .status == "True"))' >/dev/null
}
