#!/usr/bin/env bash
# A node with 30 pods of a Deployment and a static pod is rebooted, with shutdownGracePeriod set: pods end in good order, their
# statuses are at the API server before the power goes, and after the boot all 30 are replaced and ready, the static pod and
# the DaemonSet's run, and no pod is stuck. Then node-1, whose static pods are the control plane itself.
set -euo pipefail
# shellcheck source=tests/machine/scenarios/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PODS=30
# Before its taint comes, the scheduler may send some pods to the node that goes down.
REJECTED=30

main() {
  begin
  configure 'shutdownGracePeriod: 30s' 'shutdownGracePeriodCriticalPods: 10s'
  static_pod ''
  started work "$PODS"
  until_true 60 static_ready || wrong "the static pod is not ready"
  goes_down
  comes_up
  static_gone
  gone work
  control_plane
}

goes_down() {
  local before proxy begun=$EPOCHREALTIME
  before=$(uids -l app=work) proxy=$(uids -n kube-system -l k8s-app=kube-proxy --field-selector "spec.nodeName=$NODE")
  follow_phases
  follow nodes nodes "$NODE" -o 'custom-columns=R:.status.conditions[?(@.type=="Ready")].status,M:.status.conditions[?(@.type=="Ready")].message'
  begin_reboot
  timed "systemctl reboot to the power's end" 90 is_down || wrong "it does not go down"
  # What is there now was sent before: the machine has only begun to boot.
  measured "last statuses sent before it" "$(comm -12 <(echo "$before") <(terminated) | wc -l) of $PODS"
  [[ -z $(comm -23 <(echo "$before") <(terminated)) ]] || wrong "pods whose last status was not sent: $(comm -23 <(echo "$before") <(terminated) | xargs)"
  terminated | grep -qxF "$proxy" || wrong "kube-proxy's last status was not sent"
  grep -q '^False .*shutting down' "$logs/nodes" || wrong "the node was not seen not ready because of the shutdown"
  [[ ! $(ended_at <<<"$before" | tail -n 1) > $(ended_at <<<"$proxy" | tail -n 1) ]] || wrong "kube-proxy, which is critical, ended before an ordinary pod"
  measured "ordinary pods ended, then critical ones" "$(ended_at <<<"$before" | tail -n 1), $(ended_at <<<"$proxy" | tail -n 1)"
}

# `ended_at <UIDS`: when each of them ended, sorted.
ended_at() { awk 'NR == FNR { wanted[$1] = 1; next } $2 == "Failed" && ($1 in wanted) { print $4 }' - "$logs/phases" | sort; }

comes_up() {
  local rejected
  timed "boot" 90 is_up || wrong "it does not boot"
  timed "boot to $PODS pods replaced and ready" "$READY_SECONDS" replaced work "$PODS" || wrong "not all pods are replaced"
  timed "static pod ready" 60 static_ready || wrong "the static pod does not run"
  timed "every pod of the node ready" 120 all_ready || wrong "a pod is stuck: $(k get pods "${ON_NODE[@]}" | awk '!/Running/' | head -n 5)"
  # Their controllers have replaced them. A pod of a Deployment stays in the API until somebody deletes it, here or with upstream.
  rejected=$(k get pods -A -o json | jq '[.items[] | select(.status.reason == "NodeShutdown")] | length')
  measured "pods that came during the shutdown and were refused" "$rejected"
  ((rejected <= REJECTED)) || wrong "$rejected pods were refused: their controller made one after the other"
  settled
}

control_plane() {
  NODE="node-1"
  ON_NODE=(-A --field-selector "spec.nodeName=$NODE")
  configure 'shutdownGracePeriod: 30s' 'shutdownGracePeriodCriticalPods: 15s'
  begin_reboot
  timed "reboot of the control plane to the power's end" 90 is_down || wrong "it does not go down"
  timed "boot of the control plane" 90 is_up || wrong "it does not boot"
  timed "boot to the API server and all pods of its node ready" "$READY_SECONDS" all_up || wrong "a pod is stuck: $(k get pods "${ON_NODE[@]}" | awk '!/Running/' | head -n 5)"
  k delete pods -A --field-selector status.phase=Failed --wait=false >/dev/null
  settled
}

all_up() { ready && all_ready; }

main
