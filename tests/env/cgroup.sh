# shellcheck shell=bash
# A cgroup in each hierarchy of the machine, below which a node puts all of its pods. Sourced.

# `each_hierarchy COMMAND NAME`: cgroup v2 is one tree, v1 one for each controller.
each_hierarchy() {
  local root
  while read -r root; do
    "$1" "$root/$2"
  done < <(awk '$0 ~ / - cgroup2? / { print $5 }' /proc/self/mountinfo)
}

make_cgroup() {
  local file
  mkdir "$1"
  # In cgroup v1 a new cpuset is empty and takes no process until its CPUs and memory nodes are set.
  for file in cpuset.mems cpuset.cpus; do
    if [[ ! -e /sys/fs/cgroup/cgroup.controllers && -e $1/$file ]]; then cat "$1/../$file" >"$1/$file"; fi
  done
}

remove_cgroup() { until_true 5 no_cgroup "$1" || warn "cgroup $1 is still in use"; }

# A killed process may take a moment to leave its cgroup.
no_cgroup() {
  find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
  [[ ! -d $1 ]]
}
