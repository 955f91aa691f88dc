#!/usr/bin/env bash
# Checks whether this machine can run containers. Prints a line for each missing feature and fails; else prints nothing.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

missing=0
lacks() {
  missing=1
  printf '  - %s\n' "$*"
}

[[ $(uname -s) == Linux ]] || { lacks "Linux: this is $(uname -s)" && exit 1; }
[[ $EUID == 0 ]] || { lacks "root: namespaces, mounts and cgroups are made by root (try: sudo make …)" && exit 1; }

if [[ ! -e /sys/fs/cgroup/cgroup.controllers ]]; then
  for controller in cpu memory pids devices freezer; do
    grep -qE " - cgroup [^ ]+ [^ ]*\b$controller\b" /proc/self/mountinfo ||
      lacks "cgroups: neither version 2 at /sys/fs/cgroup nor the '$controller' controller of version 1 is mounted"
  done
fi
probe=$(find /sys/fs/cgroup -maxdepth 1 -mindepth 1 -name memory -type d)/rubelet-probe.$$
if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then probe=/sys/fs/cgroup/rubelet-probe.$$; fi
if mkdir "$probe" 2>/dev/null; then
  rmdir "$probe"
else
  lacks "cgroups: /sys/fs/cgroup is not writable"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work"/{lower,upper,work,merged}
if command -v unshare >/dev/null; then
  unshare -m mount -t overlay overlay \
    -o "lowerdir=$work/lower,upperdir=$work/upper,workdir=$work/work" "$work/merged" 2>/dev/null ||
    lacks "overlayfs on $(stat -f -c %T "$work") at ${TMPDIR:-/tmp}: cannot be mounted (try another TMPDIR)"
  unshare -p -f true 2>/dev/null || lacks "process namespaces: cannot be made"
  if ! unshare -n true 2>/dev/null; then
    lacks "network namespaces: cannot be made"
  elif command -v ip >/dev/null; then
    unshare -n ip link add type bridge 2>/dev/null || lacks "bridges: the kernel makes none"
    unshare -n ip link add type veth 2>/dev/null || lacks "veth pairs: the kernel makes none"
  fi
else
  lacks "the program 'unshare' (package util-linux)"
fi
exit "$missing"
