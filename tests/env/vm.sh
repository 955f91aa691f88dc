#!/usr/bin/env bash
# Runs a command as root on a kernel with cgroup v2 and every controller, in a virtual machine:
#   vm.sh [-t SECONDS] [-m MEGABYTES] [-c PATH[:PATH-INSIDE]]… PROGRAM [ARGUMENT…]
#   -c   a file or directory to copy into the machine, programs with their libraries; PROGRAM is always copied
# Its output and exit code are the command's. 124: timeout. 125: the machine stopped before the command finished.
# The machine has busybox, the files of -c and loopback: no network and no write access to the host. No root needed.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage="usage: vm.sh [-t SECONDS] [-m MEGABYTES] [-c PATH[:PATH-INSIDE]]… PROGRAM [ARGUMENT…]"
# Modules of the cloud kernel that containers need.
MODULES=(overlay bridge veth)
# The disk is a sparse file: unused space costs nothing.
DISK=2G
seconds=60 megabytes=1024 files=() machine=''

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
  kernel=$CACHE/kernel
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-vm.XXXXXX")
  trap clean EXIT
  trap 'exit 130' INT TERM
  fill_root "$@"
  # No journal: the disk is not used after a crash.
  truncate -s "$DISK" "$work/disk"
  mkfs.ext4 -q -O ^has_journal -d "$work/root" "$work/disk"
  rm -rf "$work/root"
  boot
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
  put_modules
  for file in "${files[@]}"; do
    put "${file%%:*}" "${file#*:}"
  done
}

# `put PATH PATH-INSIDE`
put() {
  local lib
  mkdir -p "$work/root/$(dirname "$2")"
  cp -a "$(realpath "$1")" "$work/root/$2"
  while read -r lib; do
    [[ ! -e $work/root/$lib ]] || continue
    mkdir -p "$work/root/$(dirname "$lib")"
    cp -L "$lib" "$work/root/$lib"
  done < <(find "$work/root/$2" -type f -perm -u+x -exec ldd {} + 2>/dev/null | grep -o '/[^ ]*\.so[^ ]*' | sort -u)
}

put_modules() {
  local dir inside module
  dir=$(echo "$kernel"/lib/modules/*)
  inside=$work/root${dir#"$kernel"}
  mkdir -p "$inside"
  printf '%s\n' "${MODULES[@]}" >"$work/root/modules"
  for module in "${MODULES[@]}"; do
    # A line of the index: a module, a colon, and its dependencies.
    grep "/$module\.ko:" "$dir/modules.dep" | tr -d : | xargs -n 1
  done | sort -u | (cd "$dir" && xargs cp --parents -t "$inside" modules.dep)
}

boot() {
  local status=0
  # Emulated even if the hardware supports virtualisation: nested virtualisation is not available everywhere, and
  # emulation behaves the same everywhere. The timer check of old chips fails on a busy host.
  timeout --foreground --kill-after=5 "$seconds" qemu-system-x86_64 -accel tcg,thread=multi -smp 2 -m "$megabytes" \
    -nodefaults -no-user-config -display none -no-reboot -nic none \
    -drive "file=$work/disk,format=raw,if=none,id=disk,cache=unsafe" -device nvme,serial=1,drive=disk \
    -serial stdio -serial "file:$work/exit" -kernel "$kernel/boot/vmlinuz" \
    -append "console=ttyS0 loglevel=2 panic=-1 no_timer_check mitigations=off root=/dev/nvme0n1 rw rootwait init=/init" \
    </dev/null &
  machine=$!
  # In the background, so that this script handles a signal at once.
  wait "$machine" || status=$?
  machine=''
  if ((status == 124 || status == 137)); then
    warn "the virtual machine was stopped after $seconds s"
    exit 124
  fi
  if ((status)) || [[ ! -s $work/exit ]]; then
    warn "the virtual machine ended before its command did"
    exit 125
  fi
  exit "$(tr -dc 0-9 <"$work/exit")"
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  if [[ -n $machine ]]; then
    kill "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
  fi
  rm -rf "$work"
}

main "$@"
