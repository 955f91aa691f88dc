#!/usr/bin/env bash
# A node of upstream's kubelet gets rubelet's package under running pods, with the files and flags that kubeadm wrote, and goes
# back: no container restarts, and under rubelet no pod is seen unready. Then rubelet again.
set -euo pipefail
# shellcheck source=tests/machine/scenarios/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PODS=20

main() {
  begin
  # The host's disk may be nearly full: upstream's kubelet would take no pods and remove images.
  configure 'imageGCHighThresholdPercent: 100' 'imageGCLowThresholdPercent: 99' 'evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}'
  again agent upstream
  started swap "$PODS"
  sleep "$SETTLE"
  unaffected "upstream -> rubelet" again agent rubelet
  replaced_one
  sleep "$SETTLE"
  back
  unaffected "upstream -> rubelet once more" again agent rubelet
  settled
  gone swap
}

agent() {
  "$MACHINE_DIR/agent.sh" "$1" "$NODE" >>"$logs/agent.log" 2>&1 || wrong "agent.sh $1 fails: $(tail -n 3 "$logs/agent.log")"
  until_true 60 is_agent "$1" || wrong "the service does not run $1"
}
is_agent() {
  local version
  # shellcheck disable=SC2016
  version=$(on sh -c '/proc/$(systemctl show --property MainPID --value kubelet)/exe --version' 2>/dev/null) || return 1
  case $1 in
    rubelet) [[ $version == *rubelet* ]] ;;
    upstream) [[ $version != *rubelet* ]] ;;
  esac
}

# The new agent manages the pods, too.
replaced_one() {
  local victim
  victim=$(k get pods -l app=swap -o jsonpath='{.items[0].metadata.name}')
  k delete pod "$victim" --wait=false >/dev/null
  timed "rubelet replaces a pod that upstream started" 60 without_it "$victim" || wrong "$victim is not replaced"
}
without_it() { ! k get pod "$1" >/dev/null 2>&1 && rolled_out swap "$PODS"; }

# A pod that turns unready here does so because of upstream's kubelet, as after any restart of it.
back() {
  local before
  before=$(identities "${ON_NODE[@]}")
  stop_watch
  watch_pods "${ON_NODE[@]}"
  until_true 20 watch_has "$PODS" || wrong "no watch"
  again agent upstream
  until_true 60 rolled_out swap "$PODS" || wrong "not all pods are ready with upstream's kubelet again"
  diff <(echo "$before") <(identities "${ON_NODE[@]}") >"$logs/identities.diff" || wrong "pods are not the same under upstream, see $logs/identities.diff"
  measured "rubelet -> upstream" "all containers the same, $(unready_since 0 | wc -l) pods seen unready, by upstream"
  sleep "$SETTLE"
}

main
