#!/usr/bin/env bash
# systemd is re-executed and reads its units again, D-Bus and logind are restarted, again and again: under pods that run, pods
# that start and pods that end. Those that run do not notice, the others start and end, and no unit is left.
set -euo pipefail
# shellcheck source=tests/machine/scenarios/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PODS=20 STARTING=10
# Not those that start and end meanwhile.
WATCHED=(-l app=calm)

main() {
  begin
  started calm "$PODS"
  sleep "$SETTLE"
  unaffected "pods that run" under_unrest
  settled
  gone calm
}

under_unrest() {
  local unrest
  unrest_for "$READY_SECONDS" & unrest=$!
  started restless "$STARTING"
  measured "rounds of unrest while $STARTING pods start" "$(wc -l <"$logs/unrest")"
  k delete deployment,configmap restless --wait=false >/dev/null
  timed "$STARTING pods end" 120 no_pods_of restless || wrong "pods of restless are still there"
  kill "$unrest" 2>/dev/null || true
  wait "$unrest" || true
  measured "rounds of unrest in all" "$(wc -l <"$logs/unrest")"
  sleep "$SETTLE"
}

# `unrest_for SECONDS`
unrest_for() {
  local end=$((SECONDS + $1))
  : >"$logs/unrest"
  while ((SECONDS < end)); do
    # More often than systemd lets a unit be started without it.
    on systemctl reset-failed
    on systemctl daemon-reexec
    on systemctl daemon-reload
    on systemctl restart dbus
    on systemctl restart systemd-logind
    now >>"$logs/unrest"
    sleep 0.5
  done
}

main
