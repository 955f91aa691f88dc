#!/usr/bin/env bash
# `make scenarios`: bad days of a cluster that kubeadm made of two machines with systemd: reboots, power losses, restarts of
# everything, upgrades. A table of what was measured is printed at the end.
#   scenarios.sh [NAME…]   those of scenarios/; all by default
#   REUSE=1                uses the cluster that cluster.sh up 2 made, and leaves it
#   OUT=DIR                where logs and the table go (target/scenarios)
# DEB=FILE and RUBELET=PROGRAM choose a rubelet, and RUBELET_MACHINES=DIR a place for the disks, as for cluster.sh.
# Exit code 0: all have passed.
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
ALL=(restart systemd power reboot shutdown bad-days containerd kubeadm swap)
# None takes a third of it on an idle machine.
LIMIT_SECONDS=1500
OUT=$(realpath -m "${OUT:-$REPO/target/scenarios}")
failed=()

main() {
  local name names=("$@")
  (($#)) || names=("${ALL[@]}")
  for name in "${names[@]}"; do
    [[ -x $MACHINE_DIR/scenarios/$name.sh ]] || die "no such scenario: $name (${ALL[*]})"
  done
  rm -rf "$OUT"
  mkdir -p "$OUT"
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  "$ENV_DIR/e2e-images.sh"
  package
  [[ -n ${REUSE:-} ]] || "$MACHINE_DIR/cluster.sh" up 2
  agnhost
  for name in "${names[@]}"; do
    scenario "$name"
  done
  table
  ((${#failed[@]} == 0)) || die "failed: ${failed[*]}; logs in $OUT"
  say "${GREEN}scenarios: ok${RESET}"
}

# Built once, and outside of the machines' directory, which every `up` makes anew.
package() {
  if [[ -z ${DEB:-} ]]; then
    OUT=$OUT/package "$REPO/packaging/build.sh"
    DEB=$(echo "$OUT"/package/rubelet_*.deb)
  fi
  export DEB
}

agnhost() {
  local name
  while read -r name; do
    enter "$name" ctr -n k8s.io images import - <"$CACHE/e2e-images/agnhost.tar" >/dev/null
  done < <(machines)
}

scenario() {
  local begun=$SECONDS
  step "scenario $1"
  if timeout --foreground "$LIMIT_SECONDS" "$MACHINE_DIR/scenarios/$1.sh" "$OUT/$1"; then
    say "    ${GREEN}passed${RESET} in $((SECONDS - begun)) s"
    return
  fi
  say "    ${RED}failed${RESET} after $((SECONDS - begun)) s, see $OUT/$1"
  failed+=("$1")
  # What it left would be another one's failure.
  if [[ -z ${REUSE:-} ]]; then "$MACHINE_DIR/cluster.sh" up 2 && agnhost; fi
}

table() {
  step "measured"
  cat "$OUT"/*/table.tsv >"$OUT/table.tsv"
  column -t -s $'\t' -N SCENARIO,WHAT,VALUE "$OUT/table.tsv"
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  local status=$?
  [[ -n ${REUSE:-} ]] || "$MACHINE_DIR/run.sh" down || true
  exit "$status"
}

main "$@"
