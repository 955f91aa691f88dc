#!/usr/bin/env bash
# The tests of the tier "machine", each in machines of its own:
#   tests.sh kernel   the tests of crates/linux that need systemd as PID 1, and those of its client of D-Bus
#   tests.sh join     a cluster that kubeadm makes: the joined node runs a pod with limits on the systemd driver (join.sh)
# KEEP=1 leaves the machines running.
set -euo pipefail

work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-test.XXXXXX")
export RUBELET_MACHINES=$work/machines
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$REPO"

main() {
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  case ${1:-} in
    kernel) kernel ;;
    join)
      "$MACHINE_DIR/cluster.sh" up 2
      "$MACHINE_DIR/join.sh" node-2
      ;;
    *) die "usage: tests.sh kernel|join" ;;
  esac
}

# With the same build as the fast tier's: cargo takes no notice of a runner. nextest lists the tests on the host, and has each
# of them run by run-test.sh.
kernel() {
  local triple target name
  triple=$(rustc -vV | sed -n 's/^host: //p')
  triple=${triple//-/_}
  target=$(cargo metadata --format-version 1 --no-deps --offline | jq -r .target_directory)
  "$MACHINE_DIR/run.sh" up 1
  env "CARGO_TARGET_${triple^^}_RUNNER=$MACHINE_DIR/run-test.sh" cargo nextest run --profile machine --locked --workspace
  # Tests are chosen by name: those that were renamed would be left out silently.
  for name in node_systemd_ node_bus_; do
    grep -q "<testcase name=\"[^\"]*$name" "$target/nextest/machine/junit.xml" || die "no test is called $name…"
  done
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  local status=$?
  # A second Ctrl-C must not leave machines behind.
  trap '' INT TERM HUP
  if [[ -n ${KEEP:-} ]]; then
    say "the machines still run: RUBELET_MACHINES=$RUBELET_MACHINES tests/machine/run.sh exec node-1 -- bash -l, and … down"
  else
    "$MACHINE_DIR/run.sh" down || true
    rm -rf --one-file-system "$work"
  fi
  exit "$status"
}

main "$@"
