#!/usr/bin/env bash
# The first process of a machine, in PID, mount, network, UTS and IPC namespaces of its own: joins the machine's cgroup,
# makes its file system the root, and becomes systemd. Called by supervise.sh: init.sh NAME ROOT
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=$1 root=$2
dir=$AT/$name
# Kernel parameters that every kubelet sets, and that are the host's: the machine gets files of its own in their place.
KERNEL=(vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes)

main() {
  if [[ ${3:-} != joined ]]; then
    # /proc is still the host's, and so is the number.
    read -r pid _ </proc/self/stat
    echo "$pid" >"$dir/pid"
    each_hierarchy join_group "$CGROUP/$name"
    # The root of a cgroup namespace is where its first process is.
    exec unshare --cgroup "$0" "$name" "$root" joined
  fi
  hostname "$name"
  mount -t overlay overlay -o "lowerdir=$AT/parts:$root,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
  hierarchies=$(awk '{ for (i = 7; $i != "-"; i++); if ($(i + 1) ~ /^cgroup2?$/) print $(i + 1), $5, $(i + 3) }' /proc/self/mountinfo)
  cd "$dir/root"
  kernel_file_systems
  cgroups <<<"$hierarchies"
  disks
  mkdir -p run/old
  pivot_root . run/old
  cd /
  umount -l /run/old
  rmdir /run/old
  # So that the machine sees a mount of a container with Bidirectional propagation; the host sees nothing.
  mount --make-rshared /
  # shellcheck disable=SC2093
  exec env -i container=rubelet-machine PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --log-target=journal </dev/null >/dev/null 2>&1
}

kernel_file_systems() {
  local node file
  mount -t proc proc proc
  mount -t sysfs sysfs sys
  mount -t tmpfs -o mode=755 tmpfs run
  mount -t tmpfs -o mode=755 tmpfs dev
  mkdir dev/{pts,shm,mqueue}
  mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
  mount -t tmpfs -o mode=1777 tmpfs dev/shm
  mount -t mqueue mqueue dev/mqueue
  ln -s pts/ptmx dev/ptmx
  ln -s /proc/self/fd dev/fd
  for node in stdin:0 stdout:1 stderr:2; do
    ln -s "/proc/self/fd/${node#*:}" "dev/${node%:*}"
  done
  for node in null zero full random urandom tty kmsg fuse loop-control loop{0..7}; do
    [[ ! -e /dev/$node ]] || cp -a "/dev/$node" dev/
  done
  mkdir run/kernel
  for file in "${KERNEL[@]}"; do
    cat "/proc/sys/$file" >"run/kernel/${file//\//.}"
    mount --bind "run/kernel/${file//\//.}" "proc/sys/$file"
  done
  # A reboot is seen by it.
  cat /proc/sys/kernel/random/uuid >run/kernel/boot_id
  mount --bind run/kernel/boot_id proc/sys/kernel/random/boot_id
}

# Every hierarchy of the host, at the same place, from the machine's cgroup downwards, and writable.
cgroups() {
  local type at options option wanted
  if grep -q '^cgroup ' <<<"$hierarchies"; then mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup; fi
  while read -r type at options; do
    mkdir -p "./$at"
    if [[ $type == cgroup2 ]]; then
      mount -t cgroup2 cgroup2 "./$at"
      continue
    fi
    wanted=''
    for option in ${options//,/ }; do
      case $option in
        rw | ro | xattr | clone_children | release_agent=*) ;;
        name=*) wanted+=,none,$option ;;
        *) wanted+=,$option ;;
      esac
    done
    mount -t cgroup -o "${wanted#,}" cgroup "./$at"
  done
}

# Containers have overlays of their own, and those cannot be on the machine's.
disks() {
  local at
  for at in containerd kubelet etcd; do
    mkdir -p "$dir/disk/$at" "var/lib/$at"
    mount --bind "$dir/disk/$at" "var/lib/$at"
  done
}

main "$@"
