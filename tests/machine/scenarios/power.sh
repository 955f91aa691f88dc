#!/usr/bin/env bash
# A machine loses its power in the middle of a rollout of 30 pods, and is started again. The rollout ends, nothing is doubled and
# nothing is left.
set -euo pipefail
# shellcheck source=tests/machine/scenarios/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PODS=30
# Of the new version, at the moment of the loss.
READY=8

main() {
  local left
  begin
  started roll "$PODS" 1
  deploy roll "$PODS" 2 "$NODE"
  until_true "$READY_SECONDS" new_ones "$READY" || wrong "the rollout does not begin"
  left=$(k get pods -l app=roll,version=1 --no-headers | wc -l)
  "$RUN" kill "$NODE"
  measured "power lost" "$left pods of the old version are there"
  ((left > 0)) || wrong "the rollout was over already"
  "$RUN" start "$NODE" >/dev/null
  timed "boot to all $PODS pods of the new version ready" "$READY_SECONDS" rolled_out roll "$PODS" || wrong "the rollout does not end"
  [[ -z $(k get pods -l app=roll,version=1 --no-headers 2>/dev/null) ]] || wrong "pods of the old version are left"
  settled
  gone roll
}

new_ones() { (($(k get pods -l app=roll,version=2 -o json | jq '[.items[] | select(any(.status.conditions[]?; .type == "Ready" and .status == "True"))] | length') >= $1)); }

main
