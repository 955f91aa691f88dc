#!/usr/bin/env bash
# rubelet and containerd are stopped, killed and started in every order, under 30 ready pods. No pod notices: UIDs, containers
# and restart counts stay, and a watch sees none of them unready.
set -euo pipefail
# shellcheck source=tests/machine/scenarios/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PODS=30
# Below the time after which a node without its runtime is not ready.
AWAY=8

main() {
  begin
  started calm "$PODS"
  sleep "$SETTLE"
  unaffected "systemctl restart kubelet" again on systemctl restart kubelet
  unaffected "kill -9 of the agent" again killed
  unaffected "kubelet first, then containerd" again kubelet_first
  unaffected "containerd first, then kubelet" again containerd_first
  unaffected "containerd restarted under kubelet" again on systemctl restart containerd
  unaffected "containerd away for $AWAY s" again containerd_away
  settled
  gone calm
}

# systemd starts it again, after its RestartSec.
killed() {
  local pid
  pid=$(on systemctl show --property MainPID --value kubelet)
  on kill -KILL "$pid"
  until_true 60 other_main_pid "$pid" || wrong "systemd has not started the agent again"
}

other_main_pid() {
  local pid
  pid=$(on systemctl show --property MainPID --value kubelet)
  [[ $pid != 0 && $pid != "$1" ]]
}

both_stopped() {
  on systemctl stop kubelet
  on systemctl stop containerd
}

# A start is complete when the runtime has answered.
kubelet_first() {
  both_stopped
  on systemctl start --no-block kubelet
  sleep "$AWAY"
  [[ $(on systemctl is-active kubelet || true) == activating ]] || wrong "kubelet.service does not wait for its runtime"
  on systemctl show --property StatusText --value kubelet | grep -q runtime || wrong "its status does not say what it waits for"
  on systemctl start containerd
}

containerd_first() {
  both_stopped
  on systemctl start containerd
  on systemctl start kubelet
}

containerd_away() {
  on systemctl stop containerd
  sleep "$AWAY"
  on systemctl start containerd
}

main
