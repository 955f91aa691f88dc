#!/usr/bin/env bash
# Boots a machine, and boots it again with the same disk when it asks for a reboot; ends when it is powered off or killed.
# Called by run.sh, in the background: supervise.sh NAME ROOT
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=$1 root=$2
dir=$AT/$name
# In a PID namespace a reboot ends PID 1 by SIGHUP, and a poweroff by SIGINT.
REBOOT=$((128 + 1))

main() {
  local status
  while :; do
    # What the kernel of a real machine forgets: cgroups, and everything of the network.
    each_hierarchy remove_cgroup "$CGROUP/$name"
    each_hierarchy make_group "$CGROUP/$name"
    network
    status=0
    nsenter --net="/run/netns/$NET-$name" \
      unshare --mount --pid --uts --ipc --fork --kill-child "$MACHINE_DIR/init.sh" "$name" "$root" || status=$?
    rm -f "$dir/pid"
    ((status == REBOOT)) || break
    echo "$name reboots"
  done
  echo "$name is off: status $status"
}

# A cable to the bridge, an address, a route for everything, and routes to the pods of the other machines.
network() {
  local own=$NET-$name other
  if [[ -e /run/netns/$own ]]; then ip netns del "$own"; fi
  ip netns add "$own"
  # The old cable's end may outlive its namespace for a moment.
  in_net ip link del "$name" 2>/dev/null || true
  in_net ip link add "$name" type veth peer name eth0 netns "$own"
  in_net ip link set "$name" master bridge up
  ip -n "$own" link set lo up
  ip -n "$own" addr add "$(address "$name")/24" dev eth0
  ip -n "$own" link set eth0 up
  ip -n "$own" route add default via "$PREFIX.1"
  while read -r other; do
    [[ $other == "$name" ]] || ip -n "$own" route add "$POD_PREFIX.$(number "$other").0/24" via "$(address "$other")"
  done < <(machines)
  ip netns exec "$own" sysctl -qw net.ipv4.ip_forward=1
}

main
