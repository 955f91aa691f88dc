#!/usr/bin/env bash
# The Debian package in a Debian root where nothing runs, as in an image that is being built. `test-root.sh DIR`, from test.sh,
# which gives it a mount namespace of its own.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tests/env/lib.sh"
work=$1
root=$work/root

main() {
  local lower
  lower=$("$REPO/tests/machine/root.sh")
  mkdir -p "$work/upper" "$work/overlay" "$root"
  mount -t overlay overlay -o "lowerdir=$lower,upperdir=$work/upper,workdir=$work/overlay" "$root"
  mount -t proc proc "$root/proc"
  cp "$work"/*.deb "$root/tmp/"
  stand_ins
  install_and_purge
  upgrade
  swap
}

# `inside COMMAND…`
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$root" "$@" </dev/null; }

# As on a terminal nobody watches: a question would be an error.
quietly() { inside "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2 && die "failed: $*"; }; }

# Every path of the root but the records of dpkg, logs, and what a boot empties.
paths() {
  (cd "$root" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/apt -o -path ./tmp -o -path ./run \) \
    -prune -o -print | sort)
}

# Packages like upstream's in what matters here: names, dependencies, and which files are whose.
stand_ins() {
  local at=$work/kubelet
  mkdir -p "$at/DEBIAN" "$at/usr/bin" "$at/usr/lib/systemd/system"
  printf '#!/bin/sh\necho Kubernetes v1.36.4\n' >"$at/usr/bin/kubelet"
  chmod 0755 "$at/usr/bin/kubelet"
  printf '%s\n' '[Service]' 'ExecStart=/usr/bin/kubelet' '[Install]' 'WantedBy=multi-user.target' >"$at/usr/lib/systemd/system/kubelet.service"
  printf '%s\n' 'Package: kubelet' 'Version: 1.36.4-1.1' 'Architecture: all' 'Maintainer: nobody <n@localhost>' 'Description: stand-in' >"$at/DEBIAN/control"
  dpkg-deb --root-owner-group -b "$at" "$root/tmp/kubelet.deb" >/dev/null
  at=$work/kubeadm
  mkdir -p "$at/DEBIAN" "$at/usr/lib/systemd/system/kubelet.service.d"
  printf '%s\n' '[Service]' 'Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"' ExecStart= \
    "ExecStart=/usr/bin/kubelet \$KUBELET_KUBECONFIG_ARGS \$KUBELET_CONFIG_ARGS \$KUBELET_KUBEADM_ARGS \$KUBELET_EXTRA_ARGS" \
    >"$at/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
  printf '%s\n' 'Package: kubeadm' 'Version: 1.36.4-1.1' 'Architecture: all' 'Maintainer: nobody <n@localhost>' \
    'Depends: kubelet (>= 1.19.0)' 'Description: stand-in' >"$at/DEBIAN/control"
  dpkg-deb --root-owner-group -b "$at" "$root/tmp/kubeadm.deb" >/dev/null
}

install_and_purge() {
  paths >"$work/before"
  # With apt, as a user does; the recommended packages cannot be had here, and that is no failure.
  quietly apt-get install -y /tmp/rubelet.deb
  [[ $(inside dpkg --verify rubelet) == '' ]] || die "dpkg finds other files than it installed"
  [[ $(inside kubelet --version) == 'Kubernetes v'* ]] || die "kubelet --version prints nothing"
  [[ $(inside systemctl is-enabled kubelet) == enabled ]] || die "the service is not enabled"
  verify
  [[ $(inside rubelet check --config /etc/rubelet/config.yaml || true) == *'ok   configuration '* ]] ||
    die "the configuration to begin with is not valid"
  quietly dpkg --remove rubelet
  [[ -e $root/etc/rubelet/config.yaml ]] || die "a removal removed the configuration"
  quietly dpkg --purge rubelet
  paths >"$work/after"
  diff "$work/before" "$work/after" || die "a purge leaves these, or removed more than was installed"
}

# systemd names unknown settings and programs that are not there; it fails only on some of them.
verify() {
  local said
  said=$(inside systemd-analyze verify --man=no /usr/lib/systemd/system/kubelet.service 2>&1 || true)
  # Both are targets or units of packages that are not in this root.
  said=$(grep -v '^$' <<<"$said" || true)
  [[ -z $said ]] || die "systemd-analyze verify: $said"
}

# What the administrator changed stays, and so does what pods left.
upgrade() {
  quietly apt-get install -y /tmp/rubelet.deb
  echo '# ours' >>"$root/etc/rubelet/config.yaml"
  mkdir -p "$root/var/lib/kubelet/pods/a/volumes"
  inside systemctl --quiet disable kubelet
  quietly apt-get install -y /tmp/newer.deb
  [[ $(inside dpkg --status rubelet) == *'Version: 99.0'* ]] || die "the upgrade did not take place"
  [[ $(inside systemctl is-enabled kubelet || true) == disabled ]] || die "the upgrade enabled a service that was disabled"
  [[ $(tail -n 1 "$root/etc/rubelet/config.yaml") == '# ours' ]] || die "the upgrade overwrote the configuration"
  quietly apt-get install -y --allow-downgrades /tmp/rubelet.deb
  quietly dpkg --purge rubelet
  [[ -d $root/var/lib/kubelet/pods/a/volumes ]] || die "a purge removed the data of a pod"
  [[ ! -e $root/etc/rubelet ]] || die "a purge left the configuration"
  rm -r "$root/var/lib/kubelet"
}

# From upstream's packages to ours, below kubeadm's, and back.
swap() {
  quietly dpkg -i /tmp/kubelet.deb /tmp/kubeadm.deb
  quietly apt-get install -y /tmp/rubelet.deb
  [[ $(inside dpkg -l kubeadm rubelet | grep -c '^ii ') == 2 && $(inside dpkg -l kubelet) != *$'\n'ii* ]] ||
    die "after the swap: $(inside dpkg -l 'kube*' rubelet)"
  [[ $(inside kubelet --version) == *+rubelet.* ]] || die "the swap left the other kubelet"
  [[ $(inside systemctl is-enabled kubelet) == enabled ]] || die "the service is not enabled after the swap"
  inside apt-get check -qq
  verify
  quietly apt-get install -y /tmp/kubelet.deb
  [[ $(inside kubelet --version) == 'Kubernetes v1.36.4' ]] || die "the way back left rubelet"
  # The unit is upstream's now, and purging what is left of ours must not disable it.
  quietly dpkg --purge rubelet
  [[ $(inside systemctl is-enabled kubelet) == enabled ]] || die "the purge disabled the unit of the other package"
  inside apt-get check -qq
}

main
