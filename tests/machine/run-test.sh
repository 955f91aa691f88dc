#!/usr/bin/env bash
# Runs a test of Rust in the machine node-1: run-test.sh BINARY ARGUMENT…, as a runner of cargo. Lists of tests are made on the
# host, where the machine's parts are not asked.
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for argument in "$@"; do
  if [[ $argument == --list ]]; then exec "$@"; fi
done
binary=$1
inside=/root/$(basename "$binary")
shift
enter node-1 test -x "$inside" || "$MACHINE_DIR/run.sh" put "$binary" node-1 "$inside"
enter node-1 env RUBELET_NODE_TESTS=1 RUBELET_SYSTEMD_MACHINE=1 RUST_BACKTRACE="${RUST_BACKTRACE:-0}" "$inside" "$@"
