#!/usr/bin/env bash
# The root file system of a machine: Debian with systemd, D-Bus and logind. Made once, in two minutes, into the cache.
#   root.sh   prints its directory; nobody writes into it, each machine has an overlay of its own
# Another list of packages or another setup below gives another directory.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"

SUITE=bookworm
PACKAGES=(
  systemd systemd-sysv dbus libpam-systemd kmod procps
  # kubeadm, kube-proxy and a kubelet call these.
  iproute2 iptables nftables conntrack ethtool socat ebtables ipset util-linux mount e2fsprogs
  # runc's library.
  libseccomp2
  # For people and tests.
  curl jq less iputils-ping
)
# Units that only cost time in a machine without hardware, terminals and users, or that would set the clock or the
# kernel's parameters, which the machines share with the host.
MASKED=(
  systemd-sysctl.service systemd-modules-load.service systemd-firstboot.service systemd-pcrphase.service
  systemd-pcrphase-sysinit.service systemd-network-generator.service systemd-networkd-wait-online.service
  getty.target console-getty.service getty@tty1.service
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer
  dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount
)

main() {
  local root
  root=$CACHE/machine/root-$(fingerprint)
  if [[ ! -d $root ]]; then
    mkdir -p "$CACHE/machine"
    exec 9>"$CACHE/machine/root.lock"
    flock 9
    [[ -d $root ]] || make_root "$root" >&2
  fi
  echo "$root"
}

# Of the parts of this script that have an effect on the root.
fingerprint() {
  { echo "$SUITE" "${PACKAGES[@]}" "${MASKED[@]}" && declare -f set_up; } | sha256sum | cut -c-12
}

# `make_root DIR`: made beside it and renamed, so that an interrupted run leaves nothing that looks complete.
make_root() {
  local part=$CACHE/machine/root.part mirror log=$CACHE/machine/debootstrap.log include
  [[ $EUID == 0 ]] || die "the root of a machine can only be made by root"
  "$ENV_DIR/install.sh" machine
  mirror=$("$ENV_DIR/install.sh" mirror)
  step "making the root of a machine: Debian $SUITE with systemd (some minutes, once)"
  rm -rf --one-file-system "$part"
  include=$(IFS=, && echo "${PACKAGES[*]}")
  # A failure of the network can be told apart from one of ours only by the log.
  if ! debootstrap --variant=minbase --include="$include" "$SUITE" "$part" "$mirror" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    die "debootstrap failed, see above; all of it is in $log"
  fi
  set_up "$part"
  mv "$part" "$1"
}

# `set_up ROOT`
set_up() {
  local root=$1 unit
  for unit in "${MASKED[@]}"; do
    ln -sfn /dev/null "$root/etc/systemd/system/$unit"
  done
  ln -sfn /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
  # Each machine gets an identity of its own; this one would be the same for all.
  : >"$root/etc/machine-id"
  rm -f "$root/var/lib/dbus/machine-id" "$root/etc/hostname"
  # The journal outlives a reboot, and is small.
  mkdir -p "$root/var/log/journal" "$root/etc/systemd/journald.conf.d"
  printf '%s\n' '[Journal]' 'Storage=persistent' 'SystemMaxUse=200M' 'RateLimitIntervalSec=0' 'SyncIntervalSec=5s' \
    >"$root/etc/systemd/journald.conf.d/machine.conf"
  # A unit that does not stop holds a shutdown up for 90 s by default.
  mkdir -p "$root/etc/systemd/system.conf.d"
  printf '%s\n' '[Manager]' 'DefaultTimeoutStopSec=20s' >"$root/etc/systemd/system.conf.d/machine.conf"
  # The mirror of this build belongs to the host.
  : >"$root/etc/apt/sources.list"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/* "$root"/var/log/*.log
}

main
