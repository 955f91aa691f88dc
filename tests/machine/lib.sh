# shellcheck shell=bash
# Names and places of the machines of one cluster, and how their processes are found. Sourced by the scripts of this
# directory, never run.
#
# Everything of a cluster is named after its directory: a killed run's remains are found by it.
# shellcheck disable=SC2034  # variables are used by those who source this

# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"
# shellcheck source=tests/env/cgroup.sh
. "$ENV_DIR/cgroup.sh"

MACHINE_DIR=$REPO/tests/machine
# The disks of the machines; not on an overlay, since containerd has overlays on them.
AT=$(realpath -m "${RUBELET_MACHINES:-${TMPDIR:-/tmp}/rubelet-machines}")
MARK=.rubelet-machines
ID=$(sha256sum <<<"$AT" | cut -c-6)
CGROUP=rubelet-machine.$ID
# The network namespace of the cluster's bridge. It has no way out.
NET=rbm-$ID
# Machine N has the address PREFIX.(10 + N), and its pods are in POD_PREFIX.N.0/24.
PREFIX=172.30.0
POD_PREFIX=10.244
BOOT_SECONDS=90

number() { echo "${1#node-}"; }
address() { echo "$PREFIX.$((10 + $(number "$1")))"; }
machines() { find "$AT" -mindepth 1 -maxdepth 1 -type d -name 'node-*' -printf '%f\n' 2>/dev/null | sort -V; }

# `in_net COMMAND…`: on the bridge's network, where the address of the host is PREFIX.1.
in_net() { ip netns exec "$NET" "$@"; }

# `pid1 NAME`: the host's number of a machine's PID 1; empty if the machine is off. The file may be older than a crash of
# the host, so the process must be the first one of a PID namespace, below the cgroup of the machine.
pid1() {
  local pid
  pid=$(cat "$AT/$1/pid" 2>/dev/null) || return 0
  if grep -qsE '^NSpid:\s+[0-9]+\s+1$' "/proc/$pid/status" && grep -qsF "/$CGROUP/$1" "/proc/$pid/cgroup"; then
    echo "$pid"
  fi
}

is_off() { [[ -z $(pid1 "$1") ]]; }

# `pids_of CGROUP`: all processes below it.
pids_of() { each_hierarchy pids_below "$1" | sort -u; }
pids_below() { [[ ! -d $1 ]] || find "$1" -name cgroup.procs -exec cat {} + 2>/dev/null; }
no_pids() { [[ -z $(pids_of "$1") ]]; }

# `make_group DIRECTORY`: like make_cgroup of cgroup.sh, but with a controller of version 2 for what is below.
make_group() {
  make_cgroup "$1"
  [[ ! -e $1/cgroup.controllers ]] || enable_controllers "$1"
}

# Of version 2. A hybrid host has hardly any there, and a machine uses none of them.
enable_controllers() {
  local controller
  [[ $(stat -fc %T /sys/fs/cgroup) == cgroup2fs ]] || return 0
  for controller in $(<"$1/cgroup.controllers"); do
    echo "+$controller" >"$1/cgroup.subtree_control" 2>/dev/null || true
  done
}

# `join_group DIRECTORY`: moves this shell there. systemd of a running machine owns the cgroup's root, so that a process
# that comes from outside goes where systemd itself is.
join_group() {
  if [[ -d $1/init.scope ]]; then
    echo 0 >"$1/init.scope/cgroup.procs"
  else
    echo 0 >"$1/cgroup.procs"
  fi
}

# `enter NAME COMMAND…`
enter() {
  local name=$1 pid
  shift
  pid=$(pid1 "$name")
  [[ -n $pid ]] || die "$name is not running: tests/machine/run.sh start $name"
  (
    each_hierarchy join_group "$CGROUP/$name"
    exec nsenter -t "$pid" -m -p -n -u -i -C -- env -i HOME=/root TERM="${TERM:-dumb}" \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
  )
}
