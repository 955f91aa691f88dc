#!/usr/bin/env bash
# An outage: the control plane is killed in the middle of a rollout of 50 pods, the agent is killed during the outage
# and again during the next rollout. In the end every pod has the right version, and no container ran twice.
#   outage.sh DIR LOGS     AGENT=rubelet is the node's agent
set -euo pipefail
# shellcheck source=tests/e2e/scenario.sh
. "$(dirname "${BASH_SOURCE[0]}")/scenario.sh"
AGENT=${AGENT:-${NODE:-rubelet}}
PODS=50
AWAY=20
PATIENCE=420

main() {
  begin "$AGENT"
  deploy roll "$PODS" 1
  until_true 120 at_least_ready roll 10 || wrong "the rollout does not begin"
  say "    the control plane dies with $(ready_count roll) pods ready"
  "$ENV_DIR/k8s.sh" halt "$cluster"
  sleep $((AWAY / 2))
  quit KILL
  agent "$AGENT"
  sleep $((AWAY / 2))
  "$ENV_DIR/k8s.sh" resume "$cluster"
  until_true "$PATIENCE" rolled_out roll "$PODS" || wrong "$(ready_count roll) of $PODS pods are ready $PATIENCE s after the control plane is back"
  all_right 1

  deploy roll "$PODS" 2
  until_true 120 new_ones_ready 10 || wrong "the second rollout does not begin"
  say "    the agent is killed in the middle of the second rollout"
  quit KILL
  agent "$AGENT"
  until_true "$PATIENCE" rolled_out roll "$PODS" || wrong "the second rollout is not done after $PATIENCE s"
  all_right 2

  k delete deployment roll >/dev/null
  until_true "$PATIENCE" nothing_left || wrong "not all is gone $PATIENCE s after the deployment"
}

new_ones_ready() { (($(k get pods -l app=roll,version=2 --no-headers 2>/dev/null | grep -c ' 1/1 ') >= $1)); }

# Pods of the old version end in the runtime before the API removes them: the runtime must have exactly the pods of the
# API. No container was started twice, not even one whose start was in flight when the agent was killed: calls outlive
# the agent (ADR 13). A start that containerd cancelled would show as a restart after StartError.
all_right() {
  local restarted
  (($(k get pods -l "app=roll,version=$1" --no-headers | wc -l) == PODS)) || wrong "not all pods are of version $1"
  restarted=$(restarts)
  [[ -z $restarted ]] || wrong "containers were started twice: ${restarted//$'\n'/ }"
  until_true 30 runtime_agrees || wrong "the runtime's containers are not those of the pods, see $logs/*.diff"
  say "    version $1: $PODS pods ready, none restarted, $PODS containers in $PODS sandboxes"
}

# Pods whose container has been restarted.
restarts() {
  k get pods -l app=roll -o json | jq -r ".items[] | .metadata.name as \$name | .status.containerStatuses[] |
    select(.restartCount > 0) | \$name"
}

runtime_agrees() {
  local uids
  uids=$(identities -l app=roll | cut -d' ' -f2 | sort)
  diff <(echo "$uids") <(running | cut -d' ' -f1) >"$logs/running.diff" &&
    diff <(echo "$uids") <(sandboxes) >"$logs/sandboxes.diff"
}

nothing_left() {
  [[ -z $(k get pods -l app=roll --no-headers 2>/dev/null) && -z $("${CTR[@]}" containers ls -q) ]] &&
    [[ -z $(ls "$cluster/kubelet/pods") ]]
}

main
