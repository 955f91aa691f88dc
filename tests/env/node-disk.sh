# shellcheck shell=bash
# A disk of a node's own: a sparse file below its directory, with ext4 on a loop device. So the thresholds of a node count
# what the node takes, and not what else is on the machine's disk. Sourced by node.sh, which sets the directory of the node.
#
# What is in use is in the page cache and, later, in the file; the file goes with the node, and nothing is written for a crash.

# As large as a node's disk may be; unused space costs nothing.
NODE_DISK_SIZE=${NODE_DISK_SIZE:-32G}

# `make_node_disk DIR NAME…`: a directory DIR/NAME on the disk for each name. False without loop devices.
make_node_disk() {
  local dir=$1 file=$1/disk.ext4 loop name
  shift
  truncate -s "$NODE_DISK_SIZE" "$file"
  # Without a journal, and without barriers: this disk is not used after a crash.
  mkfs.ext4 -q -F -O ^has_journal -m 0 -E lazy_itable_init=1,nodiscard "$file" || return 1
  # Past the page cache of the disk below, and in its blocks: otherwise a sync takes ten times as long.
  loop=$(losetup --find --show --direct-io=on --sector-size 4096 "$file" 2>/dev/null || losetup --find --show "$file" 2>/dev/null) ||
    return 1
  mkdir -p "$dir/disk"
  mount -o noatime,nobarrier,noinit_itable "$loop" "$dir/disk" || { losetup -d "$loop" && return 1; }
  # It is in use, and so it is only marked: it ends with its mount, even if that is taken away by force.
  losetup -d "$loop"
  for name in "$@"; do
    mkdir -p "$dir/disk/$name" "$dir/$name"
    mount --bind "$dir/disk/$name" "$dir/$name"
  done
}
