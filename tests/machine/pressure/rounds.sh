#!/usr/bin/env bash
# The rounds of pressure.sh on one node: rounds.sh NAME AGENT OUT [LOAD…]
#
# Three ordinary pods are there all the time: `quiet` stays below its requests, `small` is a little above what it requested, and
# `important` is far above, but has a priority. A load is one more pod, above its requests by far, which begins on a signal. It
# is the one to be evicted; only of two hogs the larger one.
#
#   memory-hog     400 MiB/s up to more than there is        leak        20 MiB/s
#   two-hogs       one of 460 and one of 250 MiB: without either there is enough
#   disk-volume    100 MiB/s into an emptyDir                disk-layer  the same into the writable layer
#   inodes         30,000 files                              pid-bomb    3,500 processes
#   images         600 MiB of images that nobody uses, and 200 MiB into an emptyDir
#   log-writer     100 MB/s for ten seconds
#   sleepers       1,000 processes, and no threshold         flap        memory that goes up and down over a soft threshold
# In the last four no pod may end. Two more are `leak` on a bad day:
#   api-away       the API server is away until the load has ended     agent-killed  the agent is killed when the load ends
# A line for each round in OUT/NAME.tsv: agent, load, round, verdict, how the load ended, how
# many others were lost, milliseconds from the threshold to the end and to relief, the least that was left.
set -euo pipefail
node=$1 agent=$2 out=$3
shift 3
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
ALL=(memory-hog leak two-hogs disk-volume disk-layer inodes images log-writer pid-bomb sleepers flap api-away agent-killed)
ROUNDS=${ROUNDS:-10}
CONFIG=/var/lib/kubelet/config.yaml
KUBECTL=$AT.plane/kubectl
RESULTS=$out/$node.tsv
# A namespace for each node.
space=$node
MIB=$((1024 * 1024))
# The cgroup of all pods, as the host sees it.
PODS=/sys/fs/cgroup/memory/$CGROUP/$node/kubepods.slice
PODS_LIMIT=$((1200 * MIB))
PODS_LEFT=$((300 * MIB))
# Longer than upstream's kubelet needs for two looks and a pod that does not end.
WATCH_SECONDS=100
BYSTANDERS=(quiet small important)
watcher=''

main() {
  local name loads=("$@")
  (($#)) || loads=("${ALL[@]}")
  : >"$RESULTS"
  trap finish EXIT
  trap 'exit 130' INT TERM HUP
  k create namespace "$space" --dry-run=client -o yaml | k apply -f - >/dev/null
  until_true 30 account || wrong "no service account"
  bystanders
  settings=''
  for name in "${loads[@]}"; do
    [[ " ${ALL[*]} " == *" $name "* ]] || die "no such load: $name (${ALL[*]})"
    load "$name"
  done
}

account() { k -n "$space" get serviceaccount default >/dev/null 2>&1; }
k() { "$KUBECTL" "$@"; }
on() { enter "$node" "$@"; }
wrong() {
  say "wrong: $*"
  exit 1
}

# shellcheck disable=SC2317  # called by the trap
finish() {
  local status=$?
  [[ -z $watcher ]] || kill "$watcher" 2>/dev/null || true
  on journalctl -u kubelet --no-pager -o short-precise >"$out/$node.log" 2>/dev/null || true
  k get events -n "$space" --sort-by=.lastTimestamp >"$out/$node.events" 2>/dev/null || true
  exit "$status"
}

# `load NAME`: process IDs are counted over all machines, so that only one of them has this load at a time.
load() {
  local round
  case $1 in
    pid-bomb | sleepers)
      exec {lock}>"$AT/threads.lock"
      flock "$lock"
      ;;
  esac
  settings_for "$1"
  watch_node "$1"
  for ((round = 1; round <= ROUNDS; round++)); do
    round "$1" "$round"
    # A flapping threshold does it ten times in one round.
    [[ $1 != flap ]] || break
  done
  node_stayed "$1"
  [[ -z ${lock:-} ]] || exec {lock}>&-
  unset lock
}

# --- Settings: thresholds depend on what is there now, with the ordinary pods ---

settings_for() {
  local wanted
  case $1 in
    memory-hog | leak | two-hogs | log-writer | api-away | agent-killed) wanted=memory ;;
    disk-volume | disk-layer) wanted=disk ;;
    images) wanted=images ;;
    inodes) wanted=inodes ;;
    pid-bomb | sleepers) wanted=pids ;;
    flap) wanted=soft ;;
  esac
  [[ $wanted != "$settings" ]] || return 0
  settings=$wanted
  case $wanted in
    memory) configure "evictionHard: {memory.available: 300Mi}" ;;
    disk)
      threshold=$(($(room) - 400 * MIB))
      configure "evictionHard: {memory.available: 100Mi, nodefs.available: \"$threshold\", imagefs.available: \"$threshold\"}"
      ;;
    images)
      threshold=$(($(room) - 700 * MIB))
      configure "evictionHard: {memory.available: 100Mi, nodefs.available: \"$threshold\", imagefs.available: \"$threshold\"}"
      ;;
    inodes)
      threshold=$(($(inodes) - 15000))
      configure "evictionHard: {memory.available: 100Mi, nodefs.inodesFree: \"$threshold\"}"
      ;;
    pids)
      # Of this machine's PID namespace. Threads are counted over the whole host.
      limit=$(($(threads) + 8000))
      on sh -c "echo $limit >/proc/sys/kernel/pid_max"
      threshold=6000
      configure "evictionHard: {memory.available: 100Mi, pid.available: \"$threshold\"}"
      ;;
    soft)
      configure "evictionHard: {memory.available: 100Mi}" \
        "evictionSoft: {memory.available: $(((machine_kib - $(node_working_set) / 1024) - 400 * 1024))Ki}" \
        "evictionSoftGracePeriod: {memory.available: 15s}" "evictionMaxPodGracePeriod: 5"
      ;;
  esac
}

machine_kib=$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)
disk_of_node() { echo "$AT/$node/disk"; }
room() { stat -fc '%a %S' "$(disk_of_node)" | awk '{ printf "%.0f", $1 * $2 }'; }
inodes() { stat -fc %d "$(disk_of_node)"; }
threads() { sed 's|.*/\([0-9]*\) .*|\1|' /proc/loadavg; }
node_working_set() {
  local dir=/sys/fs/cgroup/memory/$CGROUP/$node
  awk 'FNR == NR { usage = $1; next } $1 == "total_inactive_file" { printf "%.0f", usage - $2 }' "$dir/memory.usage_in_bytes" "$dir/memory.stat"
}

# `configure LINE…`: fields of the configuration, in the place of those of that name.
configure() {
  local line
  for line in "$@"; do
    on sed -i "/^${line%%:*}:/d" "$CONFIG"
    echo "$line" | on tee -a "$CONFIG" >/dev/null
    say "$line"
  done
  restart
}

restart() {
  local begun
  begun=$(date -u +%Y-%m-%dT%H:%M:%S)
  on systemctl restart kubelet
  until_true 90 taken_over "$begun" || wrong "the agent does not come back"
  # Longer than the slowest periodic work of an agent.
  sleep 12
}

taken_over() {
  [[ $(on systemctl is-active kubelet) == active ]] &&
    k -n kube-node-lease get lease "$node" -o json 2>/dev/null | jq -e --arg since "$1" '.spec.renewTime > $since' >/dev/null &&
    [[ $(condition Ready) == True ]]
}

condition() { k get node "$node" -o json 2>/dev/null | jq -r --arg type "$1" '.status.conditions[] | select(.type == $type).status'; }
no_pressure() {
  k get node "$node" -o json 2>/dev/null |
    jq -e '[.status.conditions[] | select(.type | endswith("Pressure")) | .status] | all(. == "False")' >/dev/null
}

# --- Pods ---

# `pod NAME REQUESTS CLASS RESTART WORK…`
pod() {
  local name=$1 requests=$2 class=$3 restart=$4 work
  shift 4
  work=$(printf '"%s",' "$@")
  k apply -f - >/dev/null <<END
apiVersion: v1
kind: Pod
metadata: {name: $name, namespace: $space}
spec:
  nodeName: $node
  restartPolicy: $restart
  terminationGracePeriodSeconds: 2
  automountServiceAccountToken: false
  priorityClassName: "$class"
  tolerations: [{operator: Exists}]
  containers:
  - name: load
    image: rubelet.test/load:1
    imagePullPolicy: Never
    args: [${work%,}]
    resources: {requests: {$requests}}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
END
}

# Those that are there already stay as they are. A node that still feels short of something refuses new ones for a while.
bystanders() {
  on ctr -n k8s.io images import --local - <"$AT/load/load.tar" >/dev/null
  until_true 120 bystanders_run || wrong "the ordinary pods do not start"
  before=$(identities)
}
bystanders_run() {
  bystander quiet || pod quiet 'memory: 120Mi, ephemeral-storage: 120Mi' '' Always mem=60 disk=/data/file:40 procs=5
  bystander small || pod small 'memory: 10Mi' '' Always mem=40 disk=/data/file:20 files=/data/n:200 procs=10
  bystander important || pod important 'memory: 10Mi' important Always mem=130 disk=/data/file:100 files=/data/n:2000 procs=50
  until_true 20 all_bystanders
}

bystander() {
  local phase
  phase=$(k -n "$space" get pod "$1" -o jsonpath='{.status.phase}' 2>/dev/null) || return 1
  [[ $phase == Running || $phase == Pending ]] && return
  k -n "$space" delete pod "$1" --wait --timeout=60s >/dev/null
  return 1
}
all_bystanders() {
  local name
  for name in "${BYSTANDERS[@]}"; do
    running "$name" || return 1
  done
}
running() { k -n "$space" get pod "$1" -o json 2>/dev/null | jq -e '.status.phase == "Running" and .status.containerStatuses[0].ready' >/dev/null; }

# Name, UID, phase and restarts of each ordinary pod.
identities() {
  k -n "$space" get pods "${BYSTANDERS[@]}" --ignore-not-found -o json |
    jq -r '.items[] | "\(.metadata.name) \(.metadata.uid) \(.status.phase) \(.status.containerStatuses[0].restartCount)"'
}
lost_bystanders() { comm -23 <(sort <<<"$before") <(identities | sort) | wc -l; }

# How a pod has ended: `Evicted`, its container's reason, `ended`, or `none` if it runs. Upstream's kubelet drops the reason if the
# containers end well; the condition stays.
fate() {
  k -n "$space" get pod "$1" -o json | jq -r '
    .status | (.containerStatuses[0].state.terminated // {}) as $last |
    if .reason then .reason
    elif any(.conditions[]; .type == "DisruptionTarget" and .reason == "TerminationByKubelet") then "Evicted"
    elif $last.reason == "OOMKilled" then "OOMKilled"
    elif .phase == "Running" then "none" else "ended" end'
}

ended() { [[ $(k -n "$space" get pod "$1" -o jsonpath='{.status.phase}') == @(Failed|Succeeded) ]]; }

# `process POD`: the host's number of its process.
process() {
  local uid pid
  uid=$(k -n "$space" get pod "$1" -o jsonpath='{.metadata.uid}')
  while read -r pid; do
    if [[ $(cat "/proc/$pid/comm" 2>/dev/null) == load ]]; then echo "$pid" && return; fi
  done < <(find "$PODS" -path "*pod${uid//-/_}.slice*" -name cgroup.procs -exec cat {} + | sort -n)
  return 1
}

# --- A round ---

round() {
  local pods=(load) seen how others verdict=wrong
  bystanders
  until_true 60 no_pressure || wrong "the node does not get rid of its pressure: $1, round $2"
  begin "$1"
  seen=$(measure "$1")
  if [[ $(cut -d' ' -f2 <<<"$seen") != - ]]; then
    until_true 40 ended load || say "the load's end is not reported: $1, round $2"
    # A second victim would be chosen now: upstream's kubelet looks every ten seconds.
    sleep 11
  fi
  # What the load led to comes to its end, a second eviction among it.
  until_true 60 no_pressure || say "the pressure does not end: $1, round $2"
  how=$(fate load)
  others=$(lost_bystanders)
  [[ $1 != two-hogs || $(fate second) == none ]] || others=$((others + 1))
  case $1 in
    sleepers | images | log-writer | flap) [[ $how != none || $others != 0 ]] || verdict=right ;;
    *) [[ $how != Evicted || $others != 0 ]] || verdict=right ;;
  esac
  [[ $1 != log-writer ]] || log_stayed_small "$seen" || verdict=wrong
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$agent" "$1" "$2" "$verdict" "$how" "$others" "$(cut -d' ' -f2- --output-delimiter=$'\t' <<<"$seen")" >>"$RESULTS"
  say "$1 $2: $verdict, $how, $others others lost; threshold, end, relief, least: $seen"
  [[ $1 != two-hogs ]] || pods+=(second)
  k -n "$space" delete pods "${pods[@]}" --wait --timeout=90s >/dev/null || wrong "the load's pod does not go"
  if [[ $1 == images ]]; then no_images; fi
}

# `begin LOAD`: its pods, which wait for the signal.
begin() {
  case $1 in
    memory-hog) load_pod mem=1500@400 ;;
    leak | api-away | agent-killed) load_pod mem=400 mem=1000@20 ;;
    two-hogs)
      load_pod mem=460@200
      pod second 'memory: 10Mi' '' Never wait mem=250@100
      until_true 60 running second || wrong "the second load does not start"
      ;;
    disk-volume) load_pod disk=/data/file:800@100 ;;
    disk-layer) load_pod disk=/file:800@100 ;;
    inodes) load_pod files=/data/n:30000 ;;
    pid-bomb) load_pod procs=3500 ;;
    sleepers) load_pod procs=1000 ;;
    log-writer) load_pod log=100:10 ;;
    flap) load_pod flap=800:6000:10 ;;
    images)
      hoard
      # An image is as old as the agent knows it, and both look for images when they start.
      restart
      load_pod disk=/data/file:200@50
      ;;
  esac
}
load_pod() { until_true 120 load_runs "$@" || wrong "the load does not start: $*"; }
# A node that still feels short of something refuses it.
load_runs() {
  if ended load 2>/dev/null; then k -n "$space" delete pod load --wait --timeout=60s >/dev/null; fi
  pod load 'memory: 10Mi' '' Never wait "$@"
  until_true 15 running load
}

# `measure LOAD`: the milliseconds until the threshold, from there to the load's end and to relief, and the least that was left.
measure() {
  local pids
  pids=$(process load) || die "no process of the load"
  [[ $1 != two-hogs ]] || pids+=" $(process second)"
  # shellcheck disable=SC2086
  case $1 in
    api-away)
      on systemctl kill --signal STOP api
      watch memory "$PODS" "$PODS_LIMIT" "$PODS_LEFT" "$WATCH_SECONDS" $pids
      on systemctl kill --signal CONT api
      ;;
    agent-killed)
      kill_agent_after "$pids" >&2 &
      watch memory "$PODS" "$PODS_LIMIT" "$PODS_LEFT" "$WATCH_SECONDS" $pids
      wait $!
      ;;
    memory-hog | leak | two-hogs) watch memory "$PODS" "$PODS_LIMIT" "$PODS_LEFT" "$WATCH_SECONDS" $pids ;;
    disk-volume | disk-layer) watch space "$(disk_of_node)" 0 "$threshold" "$WATCH_SECONDS" $pids ;;
    images) watch space "$(disk_of_node)" 0 "$threshold" 60 $pids ;;
    inodes) watch inodes "$(disk_of_node)" 0 "$threshold" "$WATCH_SECONDS" $pids ;;
    pid-bomb) watch threads /proc "$limit" "$threshold" "$WATCH_SECONDS" $pids ;;
    sleepers) watch threads /proc "$limit" "$threshold" 15 $pids ;;
    log-writer) watch size "$(log_directory)" 0 $((-32 * MIB)) 15 $pids ;;
    flap) watch memory "$PODS" "$PODS_LIMIT" 0 130 $pids ;;
  esac
}
kill_agent_after() {
  until_true "$WATCH_SECONDS" process_gone "$1" || return 0
  on systemctl kill --signal KILL kubelet
  on systemctl restart kubelet
}
process_gone() { [[ ! -e /proc/$1 ]]; }
watch() { "$AT/load/root/load" watch "$@"; }

# A limit of 10 MiB and three files, and what is written while a log is rotated.
log_stayed_small() { (($(cut -d' ' -f4 <<<"$1") > -100 * MIB)); }
log_directory() { echo "$AT/$node/upper/var/log/pods/${space}_load_$(k -n "$space" get pod load -o jsonpath='{.metadata.uid}')/load"; }

# Images that no pod uses.
hoard() {
  local n root
  for n in 1 2 3; do
    root=$AT/load/hoard-$node-$n
    if [[ ! -e $root.tar ]]; then
      mkdir -p "$root"
      head -c $((100 * MIB)) /dev/urandom >"$root/data"
      "$ENV_DIR/oci.sh" "rubelet.test/hoard-$n:1" "$root" "$root.tar"
      rm -r "$root"
    fi
    on ctr -n k8s.io images import --local - <"$root.tar" >/dev/null
  done
}
no_images() { on ctr -n k8s.io images rm --sync rubelet.test/hoard-{1,2,3}:1 >/dev/null 2>&1 || true; }

# --- The node itself ---

# `watch_node LOAD`: each change of its readiness goes to a file, and which processes are the machine's services.
watch_node() {
  services=$(services)
  "$KUBECTL" get node "$node" -w --no-headers -o 'custom-columns=R:.status.conditions[?(@.type=="Ready")].status' >"$out/$node.$1.ready" 2>/dev/null &
  watcher=$!
}
services() { on systemctl show --property Id,MainPID,NRestarts containerd kubelet dbus systemd-journald systemd-logind; }

node_stayed() {
  local verdict=right
  kill "$watcher" 2>/dev/null || true
  watcher=''
  if grep -qvx True "$out/$node.$1.ready"; then verdict='not Ready'; fi
  # In these the agent is started again.
  [[ $1 == @(agent-killed|images) || $services == "$(services)" ]] || verdict+=', services changed'
  [[ $verdict == right ]] && return
  say "$1: the node: $verdict"
  printf '%s\t%s\t-\t%s\tnone\t0\t-\t-\t-\n' "$agent" "$1" "$verdict" >>"$RESULTS"
}

main "$@"
