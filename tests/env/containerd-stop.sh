# shellcheck shell=bash
# Removes a private containerd, whatever state it is in. Sourced by containerd.sh.
#
# PID files are not trusted: a process is ours if its command line or its cgroup shows it.

# Set by containerd.sh.
dir=''
# Marks a directory that we may remove.
MARK=.rubelet-containerd
FORWARD=/proc/sys/net/ipv4/ip_forward
FORWARD_WAS_OFF=/run/rubelet-env.ip_forward

stop() {
  if [[ -e $dir && ! -e $dir/$MARK ]]; then
    [[ -z $(ls -A "$dir") ]] || die "$dir is not the directory of a private containerd: not removed"
  fi
  end_daemon
  local ids
  ids=$(task_ids)
  # Twice: a shim may have been starting a container during the first pass.
  for _ in 1 2; do
    # shellcheck disable=SC2046,SC2086  # lists of words
    kill_hard $(pids_in_cgroups $ids) $(pids_with_argument "$dir/containerd.sock" "$dir/runc")
  done
  # shellcheck disable=SC2086
  remove_cgroups $ids
  # shellcheck disable=SC2086
  remove_shared_files $ids
  unmount_below
  remove_network
  rm -rf --one-file-system "$dir"
}

end_daemon() {
  local pids
  pids=$(pids_with_argument "$dir/config.toml")
  [[ -n $pids ]] || return 0
  # shellcheck disable=SC2086
  kill $pids 2>/dev/null || true
  until_true 5 no_daemon || { # shellcheck disable=SC2046
    kill_hard $(pids_with_argument "$dir/config.toml")
  }
}

no_daemon() { [[ -z $(pids_with_argument "$dir/config.toml") ]]; }

# Processes that have one of these as a complete argument.
pids_with_argument() {
  # The patterns are not passed as arguments: grep would find itself.
  grep -lzxFs -f <(printf '%s\n' "$@") -- /proc/[0-9]*/cmdline | sed 's|/proc/\([0-9]*\)/.*|\1|' || true
}

# The ids of all sandboxes and containers that have, or had, a process.
task_ids() { find "$dir/state/io.containerd.runtime.v2.task" -mindepth 2 -maxdepth 2 -type d -printf '%f ' 2>/dev/null || true; }

# Also finds processes that left their parent or share the host's PID namespace.
pids_in_cgroups() {
  (($#)) || return 0
  grep -lsF -f <(printf '%s\n' "$@") -- /proc/[0-9]*/cgroup | sed 's|/proc/\([0-9]*\)/.*|\1|' || true
}

kill_hard() {
  (($#)) || return 0
  kill -KILL "$@" 2>/dev/null || true
  until_true 10 gone "$@" || warn "processes that do not die: $*"
}

# A zombie counts as gone: only its parent, perhaps a process that we have just killed, has not reaped it.
gone() {
  local pid
  for pid in "$@"; do
    [[ ! -e /proc/$pid ]] || grep -qs '^State:.*[ZX]' "/proc/$pid/status" || return 1
  done
}

# The cgroups of the containers, and of their pods if those are empty otherwise: one search for all of them.
remove_cgroups() {
  (($#)) || return 0
  local paths
  paths=$(find /sys/fs/cgroup -depth -type d 2>/dev/null | grep -F -f <(printf '%s\n' "$@")) || return 0
  xargs -rd '\n' rmdir <<<"$paths" 2>/dev/null || true
  sed -n 's|/[^/]*$||; /pod[^/]*$/p' <<<"$paths" | sort -u | xargs -rd '\n' rmdir 2>/dev/null || true
}

# Shim sockets are in a directory that all containerds share, named by a hash of the owner; the CNI library caches its
# results in another shared directory.
remove_shared_files() {
  local id hash
  for id in "$@"; do
    hash=$(printf '%s/k8s.io/%s' "$dir/containerd.sock" "$id" | sha256sum)
    printf '%s\n' "/run/containerd/s/${hash%% *}" /var/lib/cni/results/*-"$id"-*
  done | xargs -rd '\n' rm -f
}

# Innermost first. A mount in use is unmounted lazily.
unmount_below() {
  mounts_below | xargs -rd '\n' umount 2>/dev/null || true
  mounts_below | xargs -rd '\n' umount -l || warn "cannot unmount all below $dir"
}

mounts_below() { cut -d' ' -f5 /proc/self/mountinfo | grep "^$dir/" | tac || true; }

remove_network() {
  local name
  for name in $(bridges_of "$dir"); do
    ip link del "$name"
  done
  restore_forwarding
}

# `bridges_of DIR`; without DIR, the bridges of directories that no longer exist.
bridges_of() {
  local name of
  while read -r name of; do
    if [[ $of == "rubelet:${1:-}" || (-z ${1:-} && ! -e ${of#rubelet:}) ]]; then echo "$name"; fi
  done < <(ip -j link show type bridge | jq -r '.[] | select(.ifalias // "" | startswith("rubelet:")) | "\(.ifname) \(.ifalias)"')
}

sweep_bridges() {
  local name
  for name in $(bridges_of); do
    ip link del "$name" 2>/dev/null || true
  done
}

# The bridge plugin enables IP forwarding for the whole machine; the last instance disables it again.
remember_forwarding() { [[ $(<"$FORWARD") != 0 ]] || touch "$FORWARD_WAS_OFF"; }

restore_forwarding() {
  [[ -e $FORWARD_WAS_OFF && -z $(ip -j link show type bridge | jq -r '.[].ifalias // "" | select(startswith("rubelet:"))') ]] || return 0
  echo 0 >"$FORWARD"
  rm -f "$FORWARD_WAS_OFF"
}
