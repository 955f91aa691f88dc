#!/usr/bin/env bash
# Graceful shutdowns that do not go as planned: cancelled in the middle of a group, cancelled after the last pod, announced
# twice, with a restart of rubelet in the middle. Pods whose turn had not come go on, the others are replaced, the static pod
# runs again, and the next shutdown is delayed again.
set -euo pipefail
# shellcheck source=tests/machine/scenarios/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PODS=10

main() {
  begin
  configure 'shutdownGracePeriod: 30s' 'shutdownGracePeriodCriticalPods: 10s'
  static_pod ''
  slow_pod
  started work "$PODS"
  until_true 60 static_ready || wrong "the static pod is not ready"
  until_true 60 delayed || wrong "logind has no lock of the agent"
  cancelled_in_the_middle
  cancelled_at_the_end
  restarted_in_the_middle
  static_gone
  gone work slow
}

# It holds its group up until it is killed.
slow_pod() {
  k apply -f - >/dev/null <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: slow}
spec:
  selector: {matchLabels: {app: slow}}
  template:
    metadata: {labels: {app: slow}}
    spec:
      nodeSelector: {kubernetes.io/hostname: $NODE}
      terminationGracePeriodSeconds: 60
      containers:
      - {name: slow, image: registry.k8s.io/e2e-test-images/agnhost:2.63.0, command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"]}
END
  until_true 60 replaced slow 1 || wrong "the slow pod does not run"
}

delayed() { on systemd-inhibit --list --no-legend | grep -q '^kubelet .*shutdown.*delay'; }

# `begin_shutdown`: a reboot has begun, and all pods of work have ended. The slow pod and kube-proxy still run.
begin_shutdown() {
  before=$(uids -l app=work)
  follow_phases
  begin_reboot
  until_true 30 have_ended || wrong "pods of work do not end: $(wc -l < <(terminated)) of $PODS have"
}
have_ended() { [[ -z $(comm -23 <(echo "$before") <(terminated)) ]]; }

proxy() { identities -n kube-system -l k8s-app=kube-proxy --field-selector "spec.nodeName=$NODE,status.phase=Running"; }

# `goes_on WHAT`
goes_on() {
  timed "$1: node ready" 60 ready || wrong "the node is not ready again"
  timed "$1: $PODS pods replaced and ready" "$READY_SECONDS" replaced work "$PODS" || wrong "not all pods are replaced"
  timed "$1: static pod ready" 60 static_ready || wrong "the static pod does not run again"
  until_true 60 replaced slow 1 || wrong "the slow pod is not replaced"
  timed "$1: every pod of the node ready" 120 all_ready || wrong "a pod is stuck"
  timed "$1: the next shutdown is delayed" 90 delayed || wrong "logind has no lock of the agent"
  ! is_down || wrong "the machine has gone down"
}

# A logind that is restarted has forgotten the shutdown.
cancelled_in_the_middle() {
  local same
  same=$(proxy)
  begin_shutdown
  on systemctl restart systemd-logind
  goes_on "cancelled in the middle"
  [[ $(proxy) == "$same" ]] || wrong "kube-proxy, whose turn had not come, is not the same"
}

# What logind starts after the last lock fails: it announces that the machine stays up.
cancelled_at_the_end() {
  begin_shutdown
  on systemctl mask --runtime reboot.target 2>/dev/null
  until_true 60 stays_up || wrong "logind did not cancel the shutdown: $(on journalctl -u systemd-logind -n 3 -o cat --no-pager)"
  goes_on "cancelled at the end"
  on systemctl unmask --runtime reboot.target 2>/dev/null
}
stays_up() { on busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager PreparingForShutdown | grep -q false; }

# Another lock keeps the machine up, as that of rubelet ends with its process.
restarted_in_the_middle() {
  on systemd-run --quiet --collect --unit other-lock systemd-inhibit --what=shutdown --mode=delay --who=test --why=test sleep 300
  begin_shutdown
  # logind has a shutdown already, and says so.
  on busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager Reboot b false 2>"$logs/second" || true
  on systemctl restart --no-block kubelet
  timed "restarted in the middle: reboot to the power's end" 90 is_down || wrong "it does not go down"
  slow_ended || wrong "the slow pod's last status was not sent"
  timed "boot" 90 is_up || wrong "it does not boot"
  booted_as=$(pid1 "$NODE")
  goes_on "after the reboot"
}
slow_ended() { k get pods -l app=slow -o json | jq -e 'any(.items[]; .status.reason == "Terminated")' >/dev/null; }

main
