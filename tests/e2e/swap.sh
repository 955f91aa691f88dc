#!/usr/bin/env bash
# Replaces the agent under 30 ready pods: from upstream's kubelet to rubelet with the same flags, file and root
# directory, and back. No container restarts, and no pod turns unready under rubelet.
#   swap.sh DIR LOGS     TO=rubelet is the agent that takes over
set -euo pipefail
# shellcheck source=tests/e2e/scenario.sh
. "$(dirname "${BASH_SOURCE[0]}")/scenario.sh"
TO=${TO:-rubelet}
PODS=30
# Probes are due every second, and the slowest periodic work of an agent every ten.
SETTLE=25

main() {
  local before lines unready
  begin upstream
  # shellcheck source=/dev/null
  . "$cluster/env"
  deploy swap "$PODS" 1
  until_true 180 rolled_out swap "$PODS" || wrong "$PODS pods are not ready with upstream's kubelet"
  sleep 3
  before=$(identities -l app=swap)
  watch_pods -l app=swap
  until_true 10 watch_has_begun || wrong "no watch"

  lines=$(watch_lines)
  swap_to "$TO"
  same "$before" "$TO"
  unready=$(unready_since "$lines")
  say "    upstream -> $TO: $(($(watch_lines) - lines)) changes of pods seen, $(wc -w <<<"$unready") pods seen not ready"
  [[ -z $unready ]] || wrong "not ready after the swap to $TO: ${unready//$'\n'/ }"
  replaced

  before=$(identities -l app=swap)
  lines=$(watch_lines)
  swap_to upstream
  until_true 60 rolled_out swap "$PODS" || wrong "not all pods are ready with upstream's kubelet again"
  same "$before" upstream
  # A pod that turns unready here does so because of upstream's kubelet, as after any restart of it.
  say "    $TO -> upstream: $(($(watch_lines) - lines)) changes of pods seen, $(unready_since "$lines" | wc -l) pods seen not ready"
}

watch_has_begun() { (($(watch_lines) >= PODS)); }

swap_to() {
  local since
  quit TERM
  since=$(now)
  agent "$1"
  until_true 60 taken_over "$PORT_HEALTHZ" "$since" || wrong "$1 has not taken the node over within 60 s"
  sleep "$SETTLE"
}

# `same IDENTITIES AGENT`
same() {
  diff <(echo "$1") <(identities -l app=swap) >"$logs/identities.diff" ||
    wrong "pods are not the same under $2, see $logs/identities.diff"
  diff <(cut -d' ' -f2 <<<"$1" | sort) <(running | cut -d' ' -f1) >"$logs/running.diff" ||
    wrong "the runtime's containers are not the pods' under $2, see $logs/running.diff"
}

# The new agent also manages the pods: a deleted pod is removed and replaced.
replaced() {
  local victim
  victim=$(k get pods -l app=swap -o jsonpath='{.items[0].metadata.name}')
  k delete pod "$victim" --wait=false >/dev/null
  until_true 60 gone_and_replaced "$victim" || wrong "$victim was deleted and has not been replaced within 60 s"
}

gone_and_replaced() { ! k get pod "$1" >/dev/null 2>&1 && rolled_out swap "$PODS"; }

main
