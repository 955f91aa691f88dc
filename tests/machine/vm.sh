#!/usr/bin/env bash
# Runs a command as a unit of systemd in a virtual machine with the root of root.sh, systemd as PID 1 and cgroup v2:
#   vm.sh [-t SECONDS] [-m MEGABYTES] [-c PATH[:PATH-INSIDE]]… PROGRAM [ARGUMENT…]
#   -c   a file or directory to copy into the machine, programs with their libraries; PROGRAM is always copied
# Its output and exit code are the command's. 124: timeout. 125: the machine stopped before the command finished.
# A command that reboots the machine (`systemctl reboot`) is run again after the boot; BOOT is 1, then 2, and so on.
# The machine has no network but loopback, and no write access to the host. Root: the files of Debian have many owners.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"
# shellcheck source=tests/env/vm-lib.sh
. "$ENV_DIR/vm-lib.sh"
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage="usage: vm.sh [-t SECONDS] [-m MEGABYTES] [-c PATH[:PATH-INSIDE]]… PROGRAM [ARGUMENT…]"
# Modules of the cloud kernel that containers, systemd and small disks need; systemd loads autofs itself.
MODULES=(overlay bridge veth autofs4 loop)
# What only costs time here: no clock to set, no hardware to find, no file system to check.
ARGUMENTS="psi=1 quiet fsck.mode=skip systemd.show_status=false systemd.unified_cgroup_hierarchy=1"
seconds=120 megabytes=1536 files=()

main() {
  local option
  while getopts t:m:c: option; do
    case $option in
      t) seconds=$OPTARG ;;
      m) megabytes=$OPTARG ;;
      c) files+=("$OPTARG") ;;
      *) die "$usage" ;;
    esac
  done
  shift $((OPTIND - 1))
  (($#)) || die "$usage"
  [[ $1 != */* ]] || files+=("$1")
  [[ $EUID == 0 ]] || die "the root of a machine can only be copied by root"
  "$ENV_DIR/install.sh" vm
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-vm.XXXXXX")
  trap clean_vm EXIT
  trap 'exit 130' INT TERM
  fill_root "$@"
  make_disk
  boot_vm "$seconds" "$megabytes" "$ARGUMENTS"
}

fill_root() {
  local root=$work/root file
  cp -a "$("$HERE/root.sh")" "$root"
  # A machine without an id would be at its first boot, which enables units by their presets.
  tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
  echo vm >"$root/etc/hostname"
  echo '127.0.0.1 localhost vm' >"$root/etc/hosts"
  echo 'nameserver 127.0.0.1' >"$root/etc/resolv.conf"
  printf '%s\n' "${MODULES[@]}" >"$root/etc/modules-load.d/vm.conf"
  rm -f "$root/etc/systemd/system/systemd-modules-load.service"
  put_modules "${MODULES[@]}"
  # The index in the form that kmod reads.
  chroot "$root" depmod "$(basename "$root"/lib/modules/*)"
  for file in "${files[@]}"; do
    put "${file%%:*}" "${file#*:}"
  done
  mkdir -p "$root/var/lib/vm"
  { echo '#!/bin/bash' && printf '%q ' "$@"; } >"$root/var/lib/vm/command"
  cp "$HERE/vm-unit.sh" "$root/var/lib/vm/run"
  chmod +x "$root/var/lib/vm/command" "$root/var/lib/vm/run"
  unit >"$root/etc/systemd/system/vm.service"
  ln -s ../vm.service "$root/etc/systemd/system/multi-user.target.wants/vm.service"
}

unit() {
  cat <<'END'
[Unit]
Description=The command of a virtual machine
[Service]
# The machine's boot is complete without it.
Type=exec
ExecStart=/var/lib/vm/run
StandardOutput=file:/dev/ttyS0
StandardError=inherit
TimeoutStopSec=5
[Install]
WantedBy=multi-user.target
END
}

main "$@"
