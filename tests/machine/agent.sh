#!/usr/bin/env bash
# Installs the node agent in a machine, as a distribution would have it before kubeadm runs:
#   agent.sh rubelet NAME    the Debian package of this tree; DEB=FILE takes one that is built, RUBELET=PROGRAM packs that program
#   agent.sh upstream NAME   upstream's kubelet, with the unit and the drop-in of its package
# An agent that is there already is replaced; running pods go on.
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

RUN=$MACHINE_DIR/run.sh
usage="usage: agent.sh rubelet|upstream NAME"

main() {
  [[ $# == 2 ]] || die "$usage"
  case $1 in
    rubelet) rubelet "$2" ;;
    upstream) upstream "$2" ;;
    *) die "$usage" ;;
  esac
}

rubelet() {
  local deb=${DEB:-} before
  if [[ -z $deb ]]; then
    OUT=$AT/package "$REPO/packaging/build.sh" >&2
    deb=$(echo "$AT"/package/rubelet_*.deb)
  fi
  before=$(enter "$1" sh -c 'test ! -e /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf || echo upstream')
  remove_upstream "$1"
  "$RUN" put "$deb" "$1" /root/rubelet.deb
  quiet enter "$1" env DEBIAN_FRONTEND=noninteractive dpkg -i /root/rubelet.deb
  # A service that was disabled once, as upstream's is above, is not enabled by the package.
  [[ -z $before ]] || quiet enter "$1" systemctl enable --now kubelet
}

upstream() {
  local bin
  bin=$("$ENV_DIR/k8s-build.sh" kubelet)
  if enter "$1" dpkg -s rubelet >/dev/null 2>&1; then quiet enter "$1" dpkg --remove rubelet; fi
  "$RUN" put "$bin/kubelet" "$1" /usr/bin/kubelet
  unit | enter "$1" sh -c 'cat >/usr/lib/systemd/system/kubelet.service'
  drop_in | enter "$1" sh -c 'mkdir -p /usr/lib/systemd/system/kubelet.service.d; cat >/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf'
  enter "$1" systemctl daemon-reload
  quiet enter "$1" systemctl enable kubelet
  # As after the installation of its package: it starts again and again until kubeadm has written its configuration.
  enter "$1" systemctl restart --no-block kubelet
}

# What `upstream` put there.
remove_upstream() {
  enter "$1" sh -c '
    [ -e /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf ] || exit 0
    systemctl disable --now kubelet
    rm -r /usr/lib/systemd/system/kubelet.service.d /usr/lib/systemd/system/kubelet.service /usr/bin/kubelet
    systemctl daemon-reload' >&2
}

unit() {
  cat <<'END'
[Unit]
Description=Kubernetes' own kubelet
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
END
}

drop_in() {
  cat <<'END'
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
END
}

# `quiet COMMAND…`: its output is shown if it fails.
quiet() {
  local out
  out=$("$@" 2>&1) || { printf '%s\n' "$out" >&2 && return 1; }
}

main "$@"
