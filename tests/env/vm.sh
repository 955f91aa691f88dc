#!/usr/bin/env bash
# Runs a command as root on a kernel with cgroup v2 and every controller, in a virtual machine:
#   vm.sh [-t SECONDS] [-m MEGABYTES] [-c PATH[:PATH-INSIDE]]… PROGRAM [ARGUMENT…]
#   -c   a file or directory to copy into the machine, programs with their libraries; PROGRAM is always copied
# Its output and exit code are the command's. 124: timeout. 125: the machine stopped before the command finished.
# The machine has busybox, the files of -c and loopback: no network and no write access to the host. No root needed.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/env/vm-lib.sh
. "$ENV_DIR/vm-lib.sh"

usage="usage: vm.sh [-t SECONDS] [-m MEGABYTES] [-c PATH[:PATH-INSIDE]]… PROGRAM [ARGUMENT…]"
# Modules of the cloud kernel that containers need.
MODULES=(overlay bridge veth)
seconds=60 megabytes=1024 files=()

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
  # A name without a slash is an applet of busybox.
  [[ $1 != */* ]] || files+=("$1")
  "$ENV_DIR/install.sh" vm
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-vm.XXXXXX")
  trap clean_vm EXIT
  trap 'exit 130' INT TERM
  fill_root "$@"
  make_disk
  boot_vm "$seconds" "$megabytes" "init=/init" -no-reboot
}

# The file system of the machine, as a directory.
fill_root() {
  local root=$work/root file
  mkdir -p "$root"/{bin,proc,sys,dev,tmp,run,root,etc,var/lib,var/log}
  cp "$CACHE/busybox/bin/busybox" "$root/bin/busybox"
  cp "$ENV_DIR/vm-init.sh" "$root/init"
  { echo '#!/bin/sh' && printf '%q ' "$@"; } >"$root/command"
  chmod +x "$root/init" "$root/command"
  chmod 1777 "$root/tmp"
  echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
  echo '127.0.0.1 localhost vm' >"$root/etc/hosts"
  echo 'nameserver 127.0.0.1' >"$root/etc/resolv.conf"
  printf '%s\n' "${MODULES[@]}" >"$root/modules"
  put_modules "${MODULES[@]}"
  for file in "${files[@]}"; do
    put "${file%%:*}" "${file#*:}"
  done
}

main "$@"
