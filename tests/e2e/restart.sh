#!/usr/bin/env bash
# The agent is killed and started again, three times, under 30 ready pods. The pods are not affected: no container
# restarts, no pod turns unready, and no pod status is written.
#   restart.sh DIR LOGS     AGENT=rubelet is the node's agent
set -euo pipefail
# shellcheck source=tests/e2e/scenario.sh
. "$(dirname "${BASH_SOURCE[0]}")/scenario.sh"
AGENT=${AGENT:-${NODE:-rubelet}}
PODS=30
SETTLE=20

main() {
  local before lines unready writes times
  export AUDIT=1
  begin "$AGENT"
  # shellcheck source=/dev/null
  . "$cluster/env"
  deploy calm "$PODS" 1
  until_true 180 rolled_out calm "$PODS" || wrong "$PODS pods are not ready"
  sleep "$SETTLE"
  before=$(identities -l app=calm)
  watch_pods -l app=calm
  until_true 10 watch_has_begun || wrong "no watch"
  for times in 1 2 3; do
    lines=$(watch_lines) writes=$(status_writes)
    again
    diff <(echo "$before") <(identities -l app=calm) >"$logs/identities.diff" || wrong "pods are not the same, see $logs/identities.diff"
    unready=$(unready_since "$lines")
    writes=$(($(status_writes) - writes))
    say "    restart $times: $writes pod statuses written, $(wc -w <<<"$unready") pods seen not ready"
    [[ -z $unready ]] || wrong "not ready after the restart: ${unready//$'\n'/ }"
    ((writes == 0)) || wrong "$writes pod statuses were written, and nothing had changed"
  done
}

watch_has_begun() { (($(watch_lines) >= PODS)); }

again() {
  local since
  quit KILL
  since=$(now)
  agent "$AGENT"
  until_true 60 taken_over "$PORT_HEALTHZ" "$since" || wrong "the agent has not taken the node over within 60 s"
  sleep "$SETTLE"
}

status_writes() {
  jq -r 'select(.objectRef.resource == "pods" and .objectRef.subresource == "status") | .verb' "$cluster/audit.log" | wc -l
}

main
