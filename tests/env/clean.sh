#!/usr/bin/env bash
# Removes what killed runs of these scripts left: machines, private control planes and containerds, agents and cgroups of a
# demo or a node; and the cache.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/env/containerd-stop.sh
. "$ENV_DIR/containerd-stop.sh"

# A private containerd stores its directory in the alias of its bridge.
containerds() {
  type -P ip jq >/dev/null || return 0
  ip -j link show type bridge | jq -r '.[].ifalias // "" | select(startswith("rubelet:")) | ltrimstr("rubelet:")'
}

# Below a killed run's own directory, or where people have theirs: by default, or where RUBELET_MACHINES says.
machines() {
  find "${TMPDIR:-/tmp}" ${RUBELET_MACHINES:+"$RUBELET_MACHINES"} -maxdepth 3 -name .rubelet-machines -printf '%h\n' 2>/dev/null |
    sort -u
}

while read -r at; do
  step "removing the machines of $at"
  RUBELET_MACHINES=$at "$REPO/tests/machine/run.sh" down
done < <(machines)

for slot in /run/rubelet-env.k8s.*; do
  [[ -e $slot ]] || continue
  at=$(<"$slot")
  step "stopping the control plane and the node of $at"
  "$ENV_DIR/node.sh" stop "$at"
  "$ENV_DIR/k8s.sh" stop "$at"
  rm -f "$slot"
done

while read -r at; do
  step "stopping the containerd of $at"
  # shellcheck disable=SC2046  # a list of words
  kill_hard $(pids_with_argument "$(dirname "$at")/config.yaml")
  "$ENV_DIR/containerd.sh" stop "$at"
done < <(containerds)

for at in "${TMPDIR:-/tmp}"/rubelet-{demo,test,vm,e2e,bench,node,package,packages}.*; do
  [[ -d $at ]] || continue
  step "removing $at"
  dir=$at
  unmount_below
  rm -rf --one-file-system "$at"
done
find /sys/fs/cgroup -depth -type d \( -path '*/rubelet-demo.*' -o -path '*/rubelet-node.*' -o -path '*/rubelet-bench.*' \) -exec rmdir {} + 2>/dev/null || true

step "removing $CACHE"
rm -rf "${CACHE:?}"
