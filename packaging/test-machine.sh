#!/usr/bin/env bash
# The Debian package and its service in a machine with systemd and containerd. `test-machine.sh DIR`, from test.sh
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tests/env/lib.sh"
work=$1
RUN=$REPO/tests/machine/run.sh
export RUBELET_MACHINES=$work/machines

main() {
  trap '"$RUN" down' EXIT
  trap 'exit 130' INT TERM HUP
  "$ENV_DIR/images.sh"
  "$RUN" up 1
  put "$work/rubelet.deb" /tmp/rubelet.deb
  put "$work/newer.deb" /tmp/newer.deb
  load_images
  installed_and_not_configured
  started_before_the_runtime
  upgraded
  watched
  a_message_for_a_human
  removed
}

inside() { "$RUN" exec node-1 -- "$@"; }
put() { "$RUN" put "$1" node-1 "$2"; }
# `quietly COMMAND…`: its output is shown only if it fails.
quietly() { inside env DEBIAN_FRONTEND=noninteractive "$@" >"$work/log" 2>&1 </dev/null || fail "failed: $*: $(<"$work/log")"; }
fail() {
  inside journalctl -u kubelet -n 30 --no-pager >&2 || true
  die "$*"
}

# `unit PROPERTY`
unit() { inside systemctl show --value -p "$1" kubelet; }
is() { [[ $(unit "$1") == "$2" ]]; }
has_status() { [[ $(unit StatusText) == "$1"* ]]; }
wait_for() { until_true "$1" "${@:2}" || fail "not within $1 s: ${*:2}; $(inside systemctl status --no-pager -n 0 kubelet)"; }

load_images() {
  local image
  for image in pause busybox; do
    put "$CACHE/images/$image.tar" "/tmp/$image.tar"
    wait_for 20 inside ctr -n k8s.io images import "/tmp/$image.tar" >/dev/null 2>&1
  done
  quietly ctr -n k8s.io images tag rubelet.test/pause:1 registry.k8s.io/pause:3.10.2
}

# On a fresh machine the service is enabled and does not fail in a loop: there is nothing to start yet.
installed_and_not_configured() {
  quietly apt-get install -y /tmp/rubelet.deb
  [[ $(inside systemctl is-enabled kubelet) == enabled ]] || fail "the service is not enabled"
  is ActiveState inactive || fail "the service was started without a configuration"
}

# It waits for the runtime, says so, and runs a pod once the runtime is there.
started_before_the_runtime() {
  quietly systemctl stop containerd
  quietly install -m 0644 /usr/share/rubelet/standalone.env /etc/default/kubelet
  # The disk is the host's, which may be nearly full of other things.
  inside tee -a /etc/rubelet/config.yaml >/dev/null <<<$'evictionHard: {memory.available: 100Mi}\nimageGCHighThresholdPercent: 100'
  inside tee /etc/kubernetes/manifests/sleeper.yaml >/dev/null <<'END'
apiVersion: v1
kind: Pod
metadata: {name: sleeper}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: sleeper, image: "rubelet.test/busybox:1", command: [sleep, "98765"]}]
END
  quietly systemctl start --no-block kubelet
  wait_for 20 has_status 'Waiting for the container runtime at unix:///run/containerd/containerd.sock'
  is ActiveState activating || fail "the start is complete without a runtime"
  quietly systemctl start containerd
  wait_for 30 is ActiveState active
  wait_for 30 has_status '1 pod runs, 0 wait'
  pod=$(inside pidof sleep)
  [[ $pod =~ ^[0-9]+$ ]] || fail "one process of the pod: '$pod'"
  [[ $(inside rubelet pods) == *sleeper-node-1*Running* ]] || fail "rubelet pods does not show the pod"
}

same_pod() { [[ $(inside pidof sleep) == "$pod" ]] || fail "$1: the pod's process was $pod and is $(inside pidof sleep)"; }

# The service is replaced, and its pods are not. A service that is stopped stays so.
upgraded() {
  local before
  before=$(unit MainPID)
  quietly apt-get install -y /tmp/newer.deb
  is ActiveState active || fail "the service does not run after the upgrade"
  [[ $(unit MainPID) != "$before" ]] || fail "the upgrade did not restart the service"
  wait_for 30 has_status '1 pod runs, 0 wait'
  same_pod upgrade
  quietly systemctl stop kubelet
  quietly apt-get install -y --allow-downgrades /tmp/rubelet.deb
  is ActiveState inactive || fail "the upgrade started a service that was stopped"
  quietly systemctl start kubelet
  same_pod "a stop, a downgrade and a start"
}

# A rubelet that answers is left alone; one that hangs is started anew, and its pods go on.
watched() {
  local before
  inside mkdir -p /etc/systemd/system/kubelet.service.d
  inside tee /etc/systemd/system/kubelet.service.d/50-test.conf >/dev/null <<<$'[Service]\nWatchdogSec=3\nRestartSec=1'
  quietly systemctl daemon-reload
  quietly systemctl restart kubelet
  before=$(unit MainPID)
  # Longer than the watchdog.
  sleep 5
  is MainPID "$before" || fail "the watchdog ended a rubelet that was well"
  inside kill -STOP "$before"
  wait_for 20 is NRestarts 1
  wait_for 20 is ActiveState active
  [[ $(inside journalctl -u kubelet -o cat) == *'Watchdog timeout'* ]] || fail "it was not the watchdog that ended it"
  same_pod watchdog
  inside rm /etc/systemd/system/kubelet.service.d/50-test.conf
  quietly systemctl daemon-reload
}

# `journalctl -p err` shows why a start failed, and nothing of a node that is well.
a_message_for_a_human() {
  local of_errors
  of_errors=$(inside journalctl -u kubelet -o cat -p err _COMM=kubelet)
  [[ $of_errors == '' ]] || fail "errors of a node that is well: $of_errors"
  [[ $(inside journalctl -u kubelet -o cat -p warning..warning) == *'Not built yet'* ]] || fail "warnings have no priority"
  ! inside journalctl -u kubelet -o cat | grep '^<[0-9]>' || fail "the journal did not take the priorities out"
  quietly systemctl stop kubelet
  inside tee -a /etc/rubelet/config.yaml >/dev/null <<<'maxPods: many'
  ! inside systemctl start kubelet >"$work/log" 2>&1 || fail "a wrong configuration was taken"
  [[ $(inside journalctl -u kubelet -o cat -p err) == *maxPods* ]] || fail "journalctl -p err does not name the wrong field"
  inside sed -i '/^maxPods:/d' /etc/rubelet/config.yaml
  quietly systemctl restart kubelet
  same_pod "a wrong configuration"
}

# The pods outlive the package.
removed() {
  quietly apt-get remove -y rubelet
  ! inside pidof rubelet kubelet >/dev/null || fail "rubelet runs after the removal"
  same_pod removal
  # As after a time with another kubelet: there is a configuration, so that the service starts at once.
  quietly apt-get install -y /tmp/rubelet.deb
  is ActiveState active || fail "a second installation does not start the service, though there is a configuration"
  same_pod "a second installation"
  quietly apt-get remove -y rubelet
  quietly apt-get purge -y rubelet
  [[ $(unit LoadState) == not-found ]] || fail "systemd still knows the unit"
  same_pod purge
  inside test -d /var/lib/kubelet/pods || fail "the purge removed the data of pods"
}

main
