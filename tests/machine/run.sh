#!/usr/bin/env bash
# Machines with systemd, on this host's kernel and at its full speed, on a network of their own:
#   run.sh up N                   starts node-1 to node-N; removes what an earlier run left
#   run.sh exec NAME -- COMMAND…  in a machine, as root
#   run.sh put FILE NAME PATH     copies a file or directory into a machine
#   run.sh net -- COMMAND…        a program of the host in the network of the machines (its address there: 172.30.0.1)
#   run.sh reboot NAME            gracefully, and waits until it is up again
#   run.sh kill NAME              power loss: all of its processes end at once; its disk stays
#   run.sh start NAME             boots it again
#   run.sh status                 lists them
#   run.sh down                   removes all of it
# RUBELET_MACHINES=DIR is where their disks are, and tells several clusters apart; /tmp/rubelet-machines by default.
# DISK=4G, with `up`: /var/lib/kubelet and /var/lib/containerd of each machine are on a file system of their own of that size.
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() { sed -n '3,11s/^# *//p' "$0" >&2 && exit 2; }

main() {
  local command=${1:-}
  [[ $EUID == 0 ]] || die "machines are made by root"
  shift || usage
  case $command in
    up)
      [[ ${1:-} =~ ^[1-9][0-9]?$ ]] || usage
      up "$1"
      ;;
    exec)
      [[ $# -ge 2 ]] || usage
      from "$@"
      ;;
    put)
      [[ $# == 3 ]] || usage
      put "$@"
      ;;
    net)
      [[ $# -ge 2 && $1 == -- ]] || usage
      shift
      in_net "$@"
      ;;
    reboot | kill | start)
      one "$@"
      "${command}_machine" "$1"
      ;;
    status) status ;;
    down) down ;;
    *) usage ;;
  esac
}

one() { [[ $# == 1 && -d $AT/$1/upper ]] || die "there is no machine '${1:-}' in $AT: $(machines | xargs)"; }

# `from NAME [--] COMMAND…`
from() {
  local name=$1
  shift
  [[ $1 != -- ]] || shift
  enter "$name" "$@"
}

put() {
  local pid
  pid=$(pid1 "$2")
  [[ -n $pid ]] || die "$2 is not running"
  mkdir -p "/proc/$pid/root$(dirname "$3")"
  cp -aT "$1" "/proc/$pid/root$3"
}

up() {
  local count=$1 root name n
  "$ENV_DIR/install.sh" machine
  root=$("$MACHINE_DIR/root.sh")
  down
  mkdir -p "$AT/parts"
  touch "$AT/$MARK"
  echo "$root" >"$AT/root"
  "$MACHINE_DIR/parts.sh" "$AT/parts"
  each_hierarchy make_group "$CGROUP"
  watches_more
  bridge
  for ((n = 1; n <= count; n++)); do
    make_machine "node-$n"
  done
  for name in $(machines); do
    boot "$name"
  done
  for name in $(machines); do
    wait_booted "$name"
  done
}

# The kernel counts inotify instances per user, and root is one user for the host and all of its machines: the default of
# 128 is too few for two machines with a control plane. The last cluster to go restores the old number.
INSTANCES=/proc/sys/fs/inotify/max_user_instances
INSTANCES_WAS=/run/rubelet-machines.inotify
watches_more() {
  if (($(<"$INSTANCES") < 1024)); then
    [[ -e $INSTANCES_WAS ]] || cat "$INSTANCES" >"$INSTANCES_WAS"
    echo 1024 >"$INSTANCES"
  fi
}
watches_less() {
  if [[ -e $INSTANCES_WAS && $(ip netns list) != *rbm-* ]]; then
    cat "$INSTANCES_WAS" >"$INSTANCES"
    rm "$INSTANCES_WAS"
  fi
}

bridge() {
  ip netns add "$NET"
  in_net ip link set lo up
  in_net ip link add bridge type bridge
  in_net ip addr add "$PREFIX.1/24" dev bridge
  in_net ip link set bridge up
}

# Its disk.
make_machine() {
  local dir=$AT/$1 n
  mkdir -p "$dir"/{upper/etc,work,root,disk}
  [[ -z ${DISK:-} ]] || own_disk "$dir"
  echo "$1" >"$dir/upper/etc/hostname"
  # Nobody answers there: no traffic leaves the machines. CoreDNS wants a server to forward to nevertheless.
  echo "nameserver $PREFIX.1" >"$dir/upper/etc/resolv.conf"
  tr -d - </proc/sys/kernel/random/uuid >"$dir/upper/etc/machine-id"
  echo '127.0.0.1 localhost' >"$dir/upper/etc/hosts"
  for ((n = 1; n <= count; n++)); do
    echo "$(address "node-$n") node-$n" >>"$dir/upper/etc/hosts"
  done
  "$MACHINE_DIR/parts.sh" "$dir/upper" "$1"
}

# A sparse file, so that only what is written costs disk space of the host. With few inodes, which can be used up quickly.
own_disk() {
  truncate -s "$DISK" "$1/disk.img"
  mkfs.ext4 -q -F -m 0 -i 32768 "$1/disk.img"
  mount -o loop "$1/disk.img" "$1/disk"
}

boot() {
  is_off "$1" || die "$1 is running already"
  # A caller may ignore the signals by which a machine's end is seen.
  env --default-signal=HUP,INT,QUIT setsid "$MACHINE_DIR/supervise.sh" "$1" "$(<"$AT/root")" \
    </dev/null >>"$AT/$1/supervise.log" 2>&1 &
  echo $! >"$AT/$1/supervisor"
}

# `degraded` is a unit that failed, for its owner to see; the machine is up nevertheless.
booted() { ! is_off "$1" && [[ $(enter "$1" systemctl is-system-running 2>/dev/null) =~ ^(running|degraded)$ ]]; }
booted_or_dead() { booted "$1" || no_supervisor "$1"; }
wait_booted() {
  if until_true "$BOOT_SECONDS" booted_or_dead "$1" && ! no_supervisor "$1"; then
    say "$1 is up: $(enter "$1" systemctl is-system-running || true)"
    return
  fi
  tail -n 5 "$AT/$1/supervise.log" >&2
  is_off "$1" || enter "$1" systemctl list-jobs >&2 || true
  die "$1 is not up after $BOOT_SECONDS s"
}

start_machine() {
  boot "$1"
  wait_booted "$1"
}

reboot_machine() {
  local before
  before=$(pid1 "$1")
  enter "$1" systemctl reboot || true
  until_true 120 gone "$before" || die "$1 does not shut down within 120 s"
  wait_booted "$1"
}

gone() { [[ ! -e /proc/$1 ]]; }

# The supervisor ends by itself.
kill_machine() {
  local pid
  pid=$(pid1 "$1")
  if [[ -n $pid ]]; then kill -KILL "$pid"; fi
  until_true 20 no_pids "$CGROUP/$1" || die "processes of $1 do not end: $(pids_of "$CGROUP/$1" | xargs)"
  until_true 5 no_supervisor "$1" || die "the supervisor of $1 does not end"
}

# By its arguments too: the number may be another process's by now.
supervisor() {
  local pid
  pid=$(cat "$AT/$1/supervisor" 2>/dev/null) || return 0
  if grep -qszF "$MACHINE_DIR/supervise.sh" "/proc/$pid/cmdline"; then echo "$pid"; fi
}
no_supervisor() { [[ -z $(supervisor "$1") ]]; }

status() {
  local name
  for name in $(machines); do
    if is_off "$name"; then
      say "$name off"
    else
      say "$name $(address "$name") $(enter "$name" systemctl is-system-running || true)"
    fi
  done
}

down() {
  local name pid
  [[ ! -e $AT || -e $AT/$MARK || -z $(ls -A "$AT") ]] || die "$AT is not a directory of machines: not removed"
  for name in $(machines); do
    # First, so that it does not boot the machine again.
    pid=$(supervisor "$name")
    if [[ -n $pid ]]; then kill -KILL "$pid" 2>/dev/null || true; fi
  done
  for pid in $(pids_of "$CGROUP"); do
    kill -KILL "$pid" 2>/dev/null || true
  done
  until_true 20 no_pids "$CGROUP" || die "processes do not end: $(pids_of "$CGROUP" | xargs)"
  each_hierarchy remove_cgroup "$CGROUP"
  for name in $(ip netns list | awk -v net="$NET" '$1 == net || index($1, net "-") == 1 { print $1 }'); do
    ip netns del "$name"
  done
  watches_less
  for name in $(machines); do
    if mountpoint -q "$AT/$name/disk"; then umount "$AT/$name/disk"; fi
  done
  # An overlay leaves a work directory without any permission, which root removes.
  rm -rf --one-file-system "$AT"
}

main "$@"
