#!/usr/bin/env bash
# Upstream's own functions and ours answer the same generated cases; a difference that is not stated in docs/parity fails.
#   CASES=1000000   so many cases of each function; by default a minute for all of them together (DURATION=60)
#   FUNCTION=name   one function alone
#   SEED=1          other cases
#   REPLAY=FILE     one case, as it was printed or kept in tests/oracle/regressions: both answers
#   KEEP=1          with REPLAY: writes upstream's answer into the file, in the form of a kept case
#   GOLDENS=1       asks upstream about every case of crates/core/tests/golden and writes its answers beside them
#   PROFILE=dev     cargo profile of our side; bench-quick takes longer to build and answers faster, for long runs
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"
cd "$REPO"

program=$(tests/oracle/build.sh)
exec cargo run --quiet --locked --profile "${PROFILE:-dev}" -p rubelet-oracle -- "$program"
